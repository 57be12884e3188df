const MASK_DELTA = 0xa282ead8;

/** The checksum `crc` as LevelDB stores it beside what it is of. */
export function maskOf(crc: number): number {
  return (((crc >>> 15) | (crc << 17)) + MASK_DELTA) >>> 0;
}

/** Whether `masked` is how LevelDB stores the checksum `crc` beside what it is of. */
export function isMaskOf(masked: number, crc: number): boolean {
  return masked === maskOf(crc);
}
