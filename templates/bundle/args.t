%# What a problem says of the arguments of a call, on a processor or on a device: lengths, dense strides, and a scale.
    args->batch = problem->batch, args->heads = problem->heads, args->kv_heads = problem->kv_heads;
    args->q_len = problem->q_len, args->kv_len = problem->kv_len;
    ${NAME}_strides(args->q_stride, problem->heads, problem->q_len, width);
    ${NAME}_strides(args->k_stride, problem->kv_heads, problem->kv_len, ${NAME}_units(problem, width));
    ${NAME}_strides(args->v_stride, problem->kv_heads, problem->kv_len, ${NAME}_units(problem, width_v));
    ${NAME}_strides(args->o_stride, problem->heads, problem->q_len, width_v);
    args->bottom_right = 1;
    args->scale = ${NAME}_scale(width);
