// Ranges of addresses in policies and settings. Numbers, not the BlockList of node:net: its memory is not that of the heap, so that a gateway that reads many
// policies would grow, and stand still when it is given back.
import { isIP, isIPv6 } from "node:net";
import { assert } from "@concord/runtime";

export interface Subnet {
  readonly address: string;
  readonly prefixBits: number;
  readonly isV6: boolean;
}

/** "10.0.0.0/8", or one address. */
export function subnetOf(text: string): Subnet | undefined {
  const [, address = "", prefix] = /^([0-9A-Fa-f.:]{2,45})(?:\/(\d{1,3}))?$/.exec(text) ?? [];
  if (isIP(address) === 0) return undefined;
  const isV6 = isIPv6(address);
  const bits = isV6 ? 128 : 32;
  const prefixBits = prefix === undefined ? bits : Number(prefix);
  return prefixBits > bits ? undefined : { address, prefixBits, isV6 };
}

/** Of IPv6, 16 bits each; an IPv4 address is in its IPv6 form. */
const GROUPS = 8;
const MAPPED_BITS = 96;

/** Of ranges that `subnetOf` knows. An IPv4 address is also found in its IPv6 form. */
export function addressesWithin(ranges: readonly string[]): (address: string) => boolean {
  const subnets = ranges.map((range) => {
    const subnet = subnetOf(range);
    assert(subnet !== undefined, "ranges were read before");
    const { address, prefixBits, isV6 } = subnet;
    return { groups: groupsOf(address), prefixBits: isV6 ? prefixBits : MAPPED_BITS + prefixBits };
  });
  return (address) => {
    if (isIP(address) === 0) return false;
    const groups = groupsOf(address);
    return subnets.some((subnet) => isWithin(groups, subnet.groups, subnet.prefixBits));
  };
}

function isWithin(groups: readonly number[], base: readonly number[], prefixBits: number): boolean {
  for (let at = 0; at * 16 < prefixBits; at += 1) {
    const ignoredBits = Math.max(0, (at + 1) * 16 - prefixBits);
    if (groups[at]! >> ignoredBits !== base[at]! >> ignoredBits) return false;
  }
  return true;
}

/** Of what `isIP` knows. */
function groupsOf(address: string): readonly number[] {
  const [plain = ""] = address.split("%");
  // The last 32 bits may be written as an IPv4 address.
  const [, before = "", ...bytes] = /^(.*:)?(\d+)\.(\d+)\.(\d+)\.(\d+)$/.exec(plain) ?? [];
  const [one = 0, two = 0, three = 0, four = 0] = bytes.map(Number);
  const last = bytes.length === 0 ? [] : [one * 256 + two, three * 256 + four];
  if (last.length > 0 && before === "") return [0, 0, 0, 0, 0, 0xffff, ...last];
  const text = last.length === 0 ? plain : before.replace(/(?<!:):$/, "");
  const [left = "", right] = text.split("::");
  const read = (half: string): number[] => half.split(":").flatMap((group) => (group === "" ? [] : [Number.parseInt(group, 16)]));
  const [head, tail] = [read(left), [...read(right ?? ""), ...last]];
  const whole = right === undefined ? [...head, ...last] : [...head, ...Array<number>(GROUPS - head.length - tail.length).fill(0), ...tail];
  assert(whole.length === GROUPS, "an address has 128 bits");
  return whole;
}
