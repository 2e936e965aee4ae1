/* stripped.c - see stripped.h. */
#include "stripped.h"

const char *const stripped[STRIPPED] = {
    "attn_bf16_d128_on_sm80_q128k64_r16_st1_copyplain_unswizzled_sharedq",
    "attn_f16_d64_causal_window_softcap_on_sm80_q64k32_r32_st1_copyplain",
    "attn_f16_d40_causal_on_sm80_q64k48_r16_st3_unswizzled",
    "attn_bf16_d192v128_causal_on_sm80_q128k64_r16_lazy_sharedq",
    "attn_bf16_d128_on_sm90_q128k64_st1_copyplain_loopjoint",
    "attn_bf16_d128_causal_on_sm90_q128k128_copyasync_loopjoint",
    "attn_f16_d40_on_sm90_q64k48_st3_lazy_copyasync_loopjoint",
    "attn_bf16_d128_causal_on_sm90_q128k128_loopjoint",
    "attn_f16_d72v200_on_sm90_q64k64_st3_lazy_loopjoint",
    "attn_f16_d128_causal_window_on_sm90_q128k128_loopspecialised",
    "attn_bf16_d128_on_sm90_q128k128_pingpong_lazy_loopspecialised",
    "attn_bf16_d64_causal_on_sm90_q128k128_pingpong_loopspecialised_serial",
    "attn_f16_d128_causal_on_sm90_q128k128_pingpong_lazy_orderstraight",
    "attn_bf16_d64_causal_window_on_sm80_q128k64_r16_orderstraight",
};
