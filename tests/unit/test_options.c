/* test_options.c - the option parser of the command line: what it accepts, what it refuses, and in which words. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gen/hint.h"
#include "runtime/cli/options.h"

enum { WORDS = 16 };
static const struct verb everything = {
    .name = "any",
    .usage = "any",
    .text = "",
    .example = "",
    .exits = "",
    .options = (OPTION_BIT(OPTION_COUNT) - 1) & ~OPTION_BIT(OPTION_OUT_DIR),
    .operand = "SPEC",
    .max_operands = 3,
};

/* Splits at blanks, since no word of a test has one, and parses. The words live as long as the options do. */
static enum options_result parse(const struct verb *verb, const char *line, struct options *out, struct gen_error *err)
{
    static char text[512];
    static char *argv[WORDS];
    int argc = 0;
    assert_true(snprintf(text, sizeof text, "any %s", line) < (int)sizeof text);
    for (char *word = strtok(text, " "); word; word = strtok(NULL, " ")) {
        assert_true(argc < WORDS);
        argv[argc++] = word;
    }
    err->text[0] = 0;
    return options_parse(verb, argc, argv, out, err);
}

static struct options accept(const char *line)
{
    struct options o;
    struct gen_error err;
    if (parse(&everything, line, &o, &err) != OPTIONS_READ)
        fail_msg("'%s' is refused: %s", line, err.text);
    return o;
}

static void refuse(const char *line, const char *message)
{
    struct options o;
    struct gen_error err;
    assert_int_equal(parse(&everything, line, &o, &err), OPTIONS_WRONG);
    assert_string_equal(err.text, message);
}

static void test_defaults(void **state)
{
    (void)state;
    struct options o = accept("");
    assert_true(o.given == 0);
    assert_int_equal(o.dtype, DTYPE_F32);
    assert_false(o.causal);
    assert_int_equal(o.align, ATTN_BOTTOM_RIGHT);
    assert_int_equal(o.layout, LAYOUT_BHSD);
    assert_int_equal(o.threads, 0);
    assert_int_equal(o.rigor, ATTN_MEASURE);
    assert_int_equal(o.operands, 0);
}

static void test_ways_to_write_a_value(void **state)
{
    (void)state;
    assert_string_equal(accept("-o a.npy").file[OPTION_O], "a.npy");
    assert_string_equal(accept("-oa.npy").file[OPTION_O], "a.npy");
    assert_string_equal(accept("--lse a.npy").file[OPTION_LSE], "a.npy");
    assert_string_equal(accept("--lse=a.npy").file[OPTION_LSE], "a.npy");
    assert_string_equal(accept("--lse=a=b").file[OPTION_LSE], "a=b");
    assert_true(accept("--q-offset -3").q_offset == -3);
    assert_true(accept("--json").json);
    assert_int_equal(accept("--dtype bf16").dtype, DTYPE_BF16);
    assert_int_equal(accept("--dtype=f16").dtype, DTYPE_F16);
    assert_int_equal(accept("--layout bshd").layout, LAYOUT_BSHD);
    assert_int_equal(accept("--threads 7").threads, 7);
    assert_int_equal(accept("--rigor estimate").rigor, ATTN_ESTIMATE);
    assert_int_equal(accept("--rigor patient").rigor, ATTN_PATIENT);
    assert_true(accept("--time-limit 0.5").time_limit == 0.5);
    assert_true(accept("--time-limit .5").time_limit == 0.5);
    assert_true(accept("--scale -0.125").scale == -0.125f);
    assert_true(accept("--scale 0").given & OPTION_BIT(OPTION_SCALE));
}

static void test_causal_value_needs_an_equals_sign(void **state)
{
    (void)state;
    struct options o = accept("--causal top-left");
    assert_true(o.causal);
    assert_int_equal(o.align, ATTN_BOTTOM_RIGHT);
    assert_int_equal(o.operands, 1);
    assert_int_equal(accept("--causal=top-left").align, ATTN_TOP_LEFT);
    assert_int_equal(accept("--causal=bottom-right").align, ATTN_BOTTOM_RIGHT);
    o = accept("--causal --q-offset 12");
    assert_int_equal(o.align, ATTN_Q_OFFSET);
    assert_true(o.q_offset == 12);
}

static void test_operands_keep_their_order(void **state)
{
    (void)state;
    struct options o = accept("a --json b -o x -- --c");
    assert_int_equal(o.operands, 3);
    assert_string_equal(o.operand[0], "a");
    assert_string_equal(o.operand[1], "b");
    assert_string_equal(o.operand[2], "--c");
    assert_string_equal(o.file[OPTION_O], "x");
    assert_string_equal(accept("-").operand[0], "-");
}

static void test_shape(void **state)
{
    (void)state;
    struct shape s = accept("--shape 2,12,4,256,300,64").shape;
    assert_string_equal(s.text, "2,12,4,256,300,64");
    const int64_t got[] = {s.batch, s.heads, s.kv_heads, s.q_len, s.kv_len, s.head_dim, s.head_dim_v};
    const int64_t want[] = {2, 12, 4, 256, 300, 64, 64};
    assert_memory_equal(got, want, sizeof want);
    assert_true(accept("--shape 1,1,1,1,1,576,512").shape.head_dim_v == 512);
#define SIDES "expected B,Hq,Hkv,Sq,Skv,D or B,Hq,Hkv,Sq,Skv,D,Dv, all integers of at least 1"
    const char *const broken[] = {"1",
                                  "1,1,1,1,1",
                                  "1,1,1,1,1,1,",
                                  "1,1,1,1,1,1,1,1",
                                  "1,1,1,1,1,x",
                                  "0,1,1,1,1,1",
                                  "1,1,1,-1,1,1",
                                  "1,,1,1,1,1",
                                  "1,1,1,1,1,1,0",
                                  "99999999999999999999,1,1,1,1,1",
                                  "+1,1,1,1,1,1",
                                  ""};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        char line[128], message[256];
        snprintf(line, sizeof line, "--shape=%s", broken[i]);
        snprintf(message, sizeof message, "--shape '%s' is invalid; " SIDES, broken[i]);
        refuse(line, message);
    }
    refuse("--shape 1,65537,1,8,8,64", "--shape '1,65537,1,8,8,64' has 65537 query heads; expected 1 to 65536");
    assert_true(accept("--shape 1,65536,1,8,8,64").shape.heads == 65536);
    refuse("--shape 1,6,4,8,8,64",
           "--shape '1,6,4,8,8,64' has 6 query heads for 4 key heads; expected a multiple of the key heads");
    refuse("--shape 1,1,1,1,1,576",
           "--shape '1,1,1,1,1,576' has head dims 576 and 576; expected D from 1 to 576 and Dv "
           "(D when not given) from 1 to 512");
    refuse("--shape 1,1,1,99999999999,1,64",
           "--shape '1,1,1,99999999999,1,64' is too large; expected tensors of fewer than 2^40 elements");
}

static void test_wrong_values(void **state)
{
    (void)state;
    refuse("--dtype f64", "--dtype 'f64' is unknown; expected f32, f16 or bf16");
    refuse("--dtype q8_0", "--dtype 'q8_0' is a type of K and V alone; expected kv=q8_0");
    refuse("--causal=middle", "--causal 'middle' is unknown; expected bottom-right or top-left");
    refuse("--layout sbhd", "--layout 'sbhd' is unknown; expected bhsd or bshd");
    refuse("--threads 0", "--threads '0' is invalid; expected an integer from 1 to 1024");
    refuse("--threads 2x", "--threads '2x' is invalid; expected an integer from 1 to 1024");
    refuse("--scale nan", "--scale 'nan' is invalid; expected a finite number, of at most 1e+30 in size");
    refuse("--scale 1e99", "--scale '1e99' is invalid; expected a finite number, of at most 1e+30 in size");
    refuse("--scale -2e30", "--scale '-2e30' is invalid; expected a finite number, of at most 1e+30 in size");
    refuse("--scale=", "--scale '' is invalid; expected a finite number, of at most 1e+30 in size");
    refuse("--compare c --tolerance x", "--tolerance 'x' is invalid; expected a finite number, 0 or more");
    refuse("--compare c --tolerance -1", "--tolerance '-1' is invalid; expected a finite number, 0 or more");
    refuse("--q-offset 1.5", "--q-offset '1.5' is invalid; expected an integer from -1099511627776 to 1099511627776");
    static const char *const limits[] = {"0", ".", ".0", "-1", "nan", "1s"};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        char line[80], message[200];
        snprintf(line, sizeof line, "--time-limit %s", limits[i]);
        snprintf(message, sizeof message, "--time-limit '%s' is invalid; expected a number of seconds above 0", limits[i]);
        refuse(line, message);
    }
    refuse("--lse=", "--lse has an empty value; expected L.npy");
    static const char *const devices[] = {"gpu", "opencl:", "opencl:x", "opencl:-1", "opencl:1x", "opencl1", "Opencl"};
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        char line[80], message[200];
        snprintf(line, sizeof line, "--device %s", devices[i]);
        snprintf(message, sizeof message,
                 "--device '%s' is unknown; expected cpu, opencl, opencl:N, cuda, cuda:N or reference (`attngen "
                 "devices` lists them)",
                 devices[i]);
        refuse(line, message);
    }
    refuse("--compiler icc", "--compiler 'icc' is unknown; expected tcc or cc");
    refuse("--json=1", "--json takes no value");
    refuse("--dtype", "--dtype has no value; expected TYPE");
    refuse("--json --json", "--json is given twice");
    refuse("--causal=top-left --q-offset 1", "--q-offset excludes --causal=top-left; expected one of them");
    refuse("a b c d", "'d' is one word too many");
}

static void test_dtypes(void **state)
{
    (void)state;
    struct options o = accept("--dtype f16");
    assert_true(o.dtype == DTYPE_F16 && o.dtype_kv == DTYPE_F16 && o.dtype_o == DTYPE_F16);
    assert_int_equal(o.dtypes, DTYPES_Q | DTYPES_KV | DTYPES_ONE); /* O goes as Q's array goes */
    o = accept("--dtype q=f32,kv=f16,o=bf16");
    assert_true(o.dtype == DTYPE_F32 && o.dtype_kv == DTYPE_F16 && o.dtype_o == DTYPE_BF16);
    assert_int_equal(o.dtypes, DTYPES_Q | DTYPES_KV | DTYPES_O);
    o = accept("--dtype o=f32,q=bf16"); /* in any order; what is left out is as q */
    assert_true(o.dtype == DTYPE_BF16 && o.dtype_kv == DTYPE_BF16 && o.dtype_o == DTYPE_F32);
    assert_int_equal(o.dtypes, DTYPES_Q | DTYPES_O);
    o = accept("--dtype kv=bf16");
    assert_true(o.dtype == DTYPE_F32 && o.dtype_kv == DTYPE_BF16 && o.dtype_o == DTYPE_F32);
    assert_int_equal(o.dtypes, DTYPES_KV);
    o = accept("--dtype q=bf16,kv=q4_0"); /* narrow types are K's and V's alone */
    assert_true(o.dtype == DTYPE_BF16 && o.dtype_kv == DTYPE_Q4_0 && o.dtype_o == DTYPE_BF16);
    const char *const broken[] = {"q=f64",       "q=f32,",        "q=",          "=f32",   "kv=f16,kv=f16",
                                  "q=f32,v=f16", "q=f32,kv=f16x", "q=f32kv=f16", ",q=f32", "q=f32,,kv=f16",
                                  "f32,kv=f16",  "q=int8",        "o=fp8,kv=fp8"};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        char line[64], message[200];
        snprintf(line, sizeof line, "--dtype=%s", broken[i]);
        snprintf(message, sizeof message,
                 "--dtype '%s' is invalid; expected q=, kv= and o=, each once at most, with f32, f16 or bf16, as in "
                 "q=f32,kv=f16; kv= with int8, fp8, q8_0 or q4_0 too",
                 broken[i]);
        refuse(line, message);
    }
}

static void test_windows_and_softcap(void **state)
{
    (void)state;
    struct options o = accept("--window 1024,0");
    assert_true(o.window[0] == 1024 && o.window[1] == 0 && options_window(&o));
    o = accept("--window -1,-1");
    assert_true(o.window[0] == -1 && o.window[1] == -1 && !options_window(&o)); /* no bound is no window */
    o = accept("--window=-1,0");
    assert_true(options_window(&o));
    o = accept("");
    assert_false(options_window(&o));
    const char *const broken[] = {
        "3", "3,", ",3", "-2,0", "0,-2", "1,2,3", "1;2", "a,b", "1,2 ", "99999999999999999999,0", "2199023255552,0"};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        struct gen_error err;
        char value[64], message[200];
        char *argv[] = {"any", "--window", value};
        snprintf(value, sizeof value, "%s", broken[i]);
        assert_int_equal(options_parse(&everything, 3, argv, &o, &err), OPTIONS_WRONG);
        snprintf(
            message, sizeof message,
            "--window '%s' is invalid; expected L,R, the keys before and after, each 0 to 2^40, or -1 for no bound",
            broken[i]);
        assert_string_equal(err.text, message);
    }
    assert_true(accept("--softcap 30").softcap == 30);
    refuse("--softcap 0", "--softcap '0' is invalid; expected 1e-30..1e30");
    refuse("--softcap -1", "--softcap '-1' is invalid; expected 1e-30..1e30");
    refuse("--softcap 3e38", "--softcap '3e38' is invalid; expected 1e-30..1e30");
    refuse("--softcap inf", "--softcap 'inf' is invalid; expected 1e-30..1e30");
}

static void test_places_of_keys_exclude_each_other(void **state)
{
    (void)state;
    struct options o = accept("--bias b --mask m --alibi a --sinks s --cu-seqlens-q q --block-table t --kv-lens l");
    assert_string_equal(o.file[OPTION_BIAS], "b");
    assert_string_equal(o.file[OPTION_MASK], "m");
    assert_string_equal(o.file[OPTION_ALIBI], "a");
    assert_string_equal(o.file[OPTION_SINKS], "s");
    assert_string_equal(o.file[OPTION_Q_STARTS], "q");
    assert_string_equal(o.file[OPTION_BLOCK_TABLE], "t");
    assert_string_equal(accept("--cu-seqlens-k k").file[OPTION_KV_STARTS], "k");
    refuse("--kv-lens l --cu-seqlens-k k",
           "--kv-lens excludes --cu-seqlens-k, which has lengths; expected one of them");
    refuse("--block-table t --cu-seqlens-k k",
           "--block-table excludes --cu-seqlens-k; expected one of them, and --kv-lens with pages");
}

static void test_what_a_spec_says_instead(void **state)
{
    (void)state;
    struct options o = accept("--scale 2 --layout bshd --kv-lens l --q-offset 3");
    assert_null(options_kernel(&o));
    o = accept("--sinks s --scale 2");
    assert_string_equal(options_kernel(&o), "--sinks");
}

static void test_what_is_not_built_says_so(void **state)
{
    (void)state;
    const char *const later[] = {"--kv-type", "--dropout", "--seed", "--block-mask"};
    for (size_t i = 0; i < sizeof later / sizeof *later; i++) {
        char line[64], message[64];
        snprintf(message, sizeof message, "%s is not implemented yet", later[i]);
        refuse(later[i], message);
        snprintf(line, sizeof line, "%s 1", later[i]);
        refuse(line, message);
        snprintf(line, sizeof line, "%s=1", later[i]);
        refuse(line, message);
    }
    refuse("--compiler both", "--compiler both is for tune; expected tcc or cc");
    refuse("--device opencl:1 --compiler cc", "--compiler is for kernels in C; expected none with --device opencl:1");
}

static void test_unknown_options(void **state)
{
    (void)state;
    refuse("--casual", "unknown option '--casual'; did you mean --causal?");
    refuse("--dtpye=f32", "unknown option '--dtpye'; did you mean --dtype?");
    refuse("--unheard-of-thing", "unknown option '--unheard-of-thing'");
    refuse("--dtypes f32", "unknown option '--dtypes'; did you mean --dtype?");
}

static void test_what_a_verb_takes_and_requires(void **state)
{
    (void)state;
    const struct verb small = {.name = "small",
                               .options = OPTION_BIT(OPTION_JSON) | OPTION_BIT(OPTION_O),
                               .required = OPTION_BIT(OPTION_O),
                               .operand = "SPEC",
                               .min_operands = 1,
                               .max_operands = 1};
    struct options o;
    struct gen_error err;
    assert_int_equal(parse(&small, "--dtype f32", &o, &err), OPTIONS_WRONG);
    assert_string_equal(err.text, "small has no option --dtype");
    assert_int_equal(parse(&small, "x", &o, &err), OPTIONS_WRONG);
    assert_string_equal(err.text, "-o O.npy is missing");
    assert_int_equal(parse(&small, "-o y", &o, &err), OPTIONS_WRONG);
    assert_string_equal(err.text, "SPEC is missing");
    assert_int_equal(parse(&small, "x -o y", &o, &err), OPTIONS_READ);
    assert_int_equal(parse(&small, "x -o y --help", &o, &err), OPTIONS_HELP);
    assert_int_equal(parse(&small, "-h", &o, &err), OPTIONS_HELP);
    assert_int_equal(parse(&small, "--version", &o, &err), OPTIONS_VERSION);
    char *empty[] = {"any", "-o", "y", "", NULL};
    assert_int_equal(options_parse(&small, 4, empty, &o, &err), OPTIONS_WRONG);
    assert_string_equal(err.text, "word 1 is empty; expected SPEC");
    const struct own_words words[] = {{OPTION_O, "PAGE", "the page"}, {.doc = NULL}};
    const struct verb own = {.name = "own", .options = OPTION_BIT(OPTION_O), .own = words};
    char *none[] = {"any", "-o", "", NULL};
    assert_int_equal(options_parse(&own, 3, none, &o, &err), OPTIONS_WRONG);
    assert_string_equal(err.text, "-o has an empty value; expected PAGE");
}

static void test_nearest_word(void **state)
{
    (void)state;
    const char *const verbs[] = {"emit", "run", "tune", "bench", "verify", "cache", "devices", NULL};
    const char *const near[] = {"emit", "emt", NULL};
    assert_string_equal(hint_nearest("emti", verbs), "emit");
    assert_string_equal(hint_nearest("rnu", verbs), "run");
    assert_string_equal(hint_nearest("tun", verbs), "tune");
    assert_string_equal(hint_nearest("device", verbs), "devices");
    assert_string_equal(hint_nearest("varify", verbs), "verify");
    assert_string_equal(hint_nearest("emti", near), "emit"); /* a swap is one mistake, and so is a letter too many */
    assert_null(hint_nearest("explain", verbs));
    assert_null(hint_nearest("", verbs));
    assert_null(hint_nearest("a-word-that-is-far-longer-than-any-that-could-be-meant", verbs));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_ways_to_write_a_value),
        cmocka_unit_test(test_causal_value_needs_an_equals_sign),
        cmocka_unit_test(test_operands_keep_their_order),
        cmocka_unit_test(test_shape),
        cmocka_unit_test(test_wrong_values),
        cmocka_unit_test(test_dtypes),
        cmocka_unit_test(test_windows_and_softcap),
        cmocka_unit_test(test_places_of_keys_exclude_each_other),
        cmocka_unit_test(test_what_a_spec_says_instead),
        cmocka_unit_test(test_what_is_not_built_says_so),
        cmocka_unit_test(test_unknown_options),
        cmocka_unit_test(test_what_a_verb_takes_and_requires),
        cmocka_unit_test(test_nearest_word),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
