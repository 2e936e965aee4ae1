/* arrays.c - see arrays.h. */
#include "arrays.h"

#include "numerics/convert.h"
#include "system/status.h"
#include "templates/c/features.h"
#include "templates/c/args.h"
#include "templates/opencl/args.h"
#include "templates/opencl/features.h"

#define PLACE(where, type, member)                                                                                     \
    {                                                                                                                  \
        where, offsetof(type, member), sizeof(((type *)0)->member)                                                     \
    }
#define RUN(member) PLACE(IN_RUN, struct attn_run, member)
#define ARGS(member) PLACE(IN_ARGS, struct attn_args, member)
#define FEATURES(member) PLACE(IN_FEATURES, struct attn_features, member)
#define CL_ARGS(member) PLACE(IN_ARGS, struct attn_cl_args, member)
#define CL_FEATURES(member) PLACE(IN_FEATURES, struct attn_cl_features, member)
#define FEATURE(member, id) .feature = #member, .problem = offsetof(struct attn_problem, member), .field = id
#define OF_KV .feature = "a kv_dtype with scales", .problem = offsetof(struct attn_problem, kv_dtype), .of_kv = true
#define ABOUT(...) __VA_ARGS__
#define SHAPED ARRAY
#define ARRAY(id, member, about, option)                                                                               \
    [ARRAY_##id] = {.name = #member,                                                                                   \
                    .run = offsetof(struct attn_run, member),                                                          \
                    .cl = offsetof(struct attn_cl_run, member),                                                        \
                    .cl_at = offsetof(struct attn_cl_run, member##_at),                                                \
                    about},
const struct array arrays[ARRAYS] = {
#include "table.def"
};

int array_sides(enum array_id id)
{
    int n = 0;
    while (n < ARRAY_SIDES && arrays[id].sides[n] != SIDE_NONE)
        n++;
    return n;
}

int array_strides(enum array_id id)
{
    return (int)(arrays[id].stride.size / sizeof(int64_t));
}

bool array_of_variant(enum array_id id, const struct variant *v)
{
    if (arrays[id].of_kv)
        return dtypes[variant_dtype_kv(v)].scaled;
    return !arrays[id].feature || v->field[arrays[id].field];
}

int64_t array_element(enum array_id id, const struct variant *v)
{
    switch (arrays[id].type) {
    case TYPE_Q: return (int64_t)dtype_size((enum dtype)v->field[F_DTYPE]);
    case TYPE_KV: return (int64_t)dtype_size(variant_dtype_kv(v));
    case TYPE_O: return (int64_t)dtype_size(variant_dtype_o(v));
    case TYPE_BIAS: return (int64_t)dtype_size(variant_dtype_bias(v));
    case TYPE_F32: return sizeof(float);
    case TYPE_I64: return sizeof(int64_t);
    case TYPE_I32: return sizeof(int32_t);
    case TYPE_BYTE: break;
    }
    return 1;
}

static int switch_of(enum array_id id, const struct attn_problem *p)
{
    int has;
    memcpy(&has, (const char *)p + arrays[id].problem, sizeof has);
    return has;
}

void array_set_switch(enum array_id id, int has, struct attn_problem *p)
{
    if (arrays[id].of_kv)
        return; /* the type says it */
    memcpy((char *)p + arrays[id].problem, &has, sizeof has);
}

attn_status arrays_check_switches(const struct attn_problem *p, struct attn_error *err)
{
    for (enum array_id id = ARRAY_FEATURES; id < ARRAYS; id++) {
        if (arrays[id].of_kv)
            continue;
        int has = switch_of(id, p), most = fields[arrays[id].field].type == FIELD_BOOL ? 1 : BIAS_COUNT - 1;
        if (has < 0 || has > most)
            return status_fail(err, ATTN_INVALID, "%s is %d; expected 0..%d", arrays[id].feature, has, most);
    }
    return ATTN_OK;
}

bool array_of_problem(enum array_id id, const struct attn_problem *p)
{
    if (arrays[id].of_kv)
        return dtypes[p->kv_dtype].scaled;
    return !arrays[id].feature || switch_of(id, p);
}

void arrays_set_fields(const struct attn_problem *p, struct variant *v)
{
    for (enum array_id id = ARRAY_FEATURES; id < ARRAYS; id++)
        if (!arrays[id].of_kv)
            v->field[arrays[id].field] = (int32_t)switch_of(id, p);
}
