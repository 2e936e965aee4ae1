/* words.c - the word that was probably meant; see options.h. */
#include "options.h"

#include <string.h>

/* Insertions, deletions, replacements and swaps of neighbours that make b of a. */
static int distance(const char *a, const char *b)
{
    enum { LONGEST = 40 };
    int row[3][LONGEST + 1];
    int m = (int)strlen(a), n = (int)strlen(b);
    if (m > LONGEST || n > LONGEST)
        return LONGEST;
    for (int j = 0; j <= n; j++)
        row[0][j] = j;
    for (int i = 1; i <= m; i++) {
        int *now = row[i % 3], *last = row[(i + 2) % 3], *before = row[(i + 1) % 3];
        now[0] = i;
        for (int j = 1; j <= n; j++) {
            int best = last[j - 1] + (a[i - 1] != b[j - 1]);
            best = last[j] + 1 < best ? last[j] + 1 : best;
            best = now[j - 1] + 1 < best ? now[j - 1] + 1 : best;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            now[j] = best;
        }
    }
    return row[m % 3][n];
}

const char *nearest_word(const char *word, const char *const *words)
{
    const char *best = NULL;
    int least = 2 * (2 + (int)strlen(word) / 3); /* farther is no typing error */
    for (; *words; words++) {
        int d = distance(word, *words);
        if (d >= (int)strlen(*words))
            continue;
        d = 2 * d + (word[0] != (*words)[0]); /* of two as near, the one that begins alike */
        if (d < least) {
            least = d;
            best = *words;
        }
    }
    return best;
}
