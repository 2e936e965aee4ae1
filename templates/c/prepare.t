%# What a caller of a kernel on tiles calls first.
% if not JIT

/* Linux lets all threads of a process use tiles once one of them has asked. */
const char *${NAME}_prepare(void)
{
#if defined(__linux__) && (defined(INTRINSICS) || defined(MACHINE_CODE))
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "0"(158L), "D"(0x1023L), "S"(18L) : "rcx", "r11", "memory"); /* arch_prctl, ARCH_REQ_XCOMP_PERM, XTILEDATA */
    return result ? "the system does not let this process use tiles; expected Linux 5.16 or later on a processor with AMX" : 0;
#else
    return 0;
#endif
}
% end
