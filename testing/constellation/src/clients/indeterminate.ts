/** Whether a failed call may have happened: it was sent, and nothing came back. A refused connection carried nothing. */
export function isIndeterminate(error: unknown): boolean {
  const { $metadata, code, message } = error as { $metadata?: { httpStatusCode?: number }; code?: string | number; message?: string };
  if ($metadata?.httpStatusCode !== undefined) return false;
  return !/ECONNREFUSED|No connection established/.test(`${code} ${message}`);
}
