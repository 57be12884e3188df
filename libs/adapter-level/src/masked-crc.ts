const MASK_DELTA = 0xa282ead8;

/** Whether `masked` is how LevelDB stores the checksum `crc` beside what it is of. */
export function isMaskOf(masked: number, crc: number): boolean {
  return masked === (((crc >>> 15) | (crc << 17)) + MASK_DELTA) >>> 0;
}
