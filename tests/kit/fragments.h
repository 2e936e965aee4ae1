/* fragments.h - where the elements are that a work-item has of a product of NVIDIA's tensor cores: rows of 16 for each warp, or
 * several such fragments below each other. What it is not: the card that multiplies (card.h). */
#ifndef ATTNGEN_TESTS_FRAGMENTS_H
#define ATTNGEN_TESTS_FRAGMENTS_H

/* Element n of those that an item has of its warp's rows, of which it has so many in each fragment of 16. */
static inline int fragment_row(int item, int n, int rows, int per_fragment)
{
    return item / 32 * rows + n / per_fragment * 16 + item % 32 / 4 + 8 * (n / 2 % 2);
}
static inline int fragment_column(int item, int n, int per_fragment)
{
    return 8 * (n % per_fragment / 4) + 2 * (item % 4) + n % 2;
}

#endif
