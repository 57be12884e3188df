/** Texts that name the write they come from, some of them padded to a size. */
export function markOf(token: string, characters?: number): string {
  return characters === undefined ? token : token.padEnd(characters);
}

/** The token of a mark as it was read. `sizes`: those that marks are padded to; a mark that is not whole is that of no write. */
export function tokenOf(mark: string, sizes: readonly number[]): string {
  const token = mark.trimEnd();
  return token.length === mark.length || sizes.includes(mark.length) ? token : `${token} of ${mark.length} characters`;
}
