/** Files are not what was written: no later try succeeds before they are mended. */
export function isDamage(thrown: unknown): boolean {
  return causesOf(thrown).some((cause) => ["CORRUPT_DATA", "LEVEL_CORRUPTION"].includes((cause as { code?: string }).code ?? ""));
}

export function causesOf(thrown: unknown): Error[] {
  const causes: Error[] = [];
  for (let cause = thrown; cause instanceof Error; cause = cause.cause) causes.push(cause);
  return causes;
}
