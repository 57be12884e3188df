const LOOPBACK = /^(127\.\d+\.\d+\.\d+|localhost|\[::1\]):\d+$/;

/** Whether an address host:port is reached from this machine alone. */
export function isLoopback(address: string): boolean {
  return LOOPBACK.test(address);
}
