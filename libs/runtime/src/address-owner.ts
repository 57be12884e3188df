/** Groups of an IPv6 address that one network has, and with them all addresses behind it. */
const NETWORK_GROUPS = 4;

/** Whose connection it is: an IPv4 address, or the /64 network of an IPv6 address. Other names are their own owners. */
export function addressOwner(address = "unknown"): string {
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1];
  if (mapped !== undefined || !address.includes(":")) return mapped ?? address;
  const [before = "", after] = address.split("%")[0]!.split("::");
  const first = before === "" ? [] : before.split(":");
  const last = after === undefined || after === "" ? [] : after.split(":");
  const zeros = after === undefined ? 0 : Math.max(0, 8 - first.length - last.length);
  const groups = [...first, ...Array.from({ length: zeros }, () => "0"), ...last];
  return groups
    .slice(0, NETWORK_GROUPS)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(":");
}
