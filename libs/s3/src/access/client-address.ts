import { isIP } from "node:net";

/**
 * The address a request came from. A proxy of ours says in X-Forwarded-For which address it forwards; anyone can send that header, so only what proxies that
 * `isTrusted` knows added is believed: the last address that is none of them. Undefined: a proxy of ours said something that is no address.
 */
export function clientAddress(peer: string, forwardedFor: readonly string[], isTrusted: (address: string) => boolean): string | undefined {
  if (!isTrusted(peer)) return isIP(peer) === 0 ? undefined : peer;
  const hops = forwardedFor
    .join(",")
    .split(",")
    .map((hop) => hop.trim())
    .filter((hop) => hop !== "");
  for (const hop of hops.reverse()) {
    if (isIP(hop) === 0) return undefined;
    if (!isTrusted(hop)) return hop;
  }
  return peer;
}
