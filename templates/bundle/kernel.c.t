/* A kernel of the bundle ${NAME}, under its name there; what stands behind these lines is as attngen emit writes it. */
#define ${variant(ITEM)} ${symbol(ITEM)}
#define ${variant(ITEM)}_workspace ${symbol(ITEM)}_workspace
% text ITEM
