import { z } from "@concord/config";

const node = z.strictObject({
  name: z.string().min(1).max(64),
  address: z.string().regex(/^.+:\d+$/, "expected host:port"),
  datacenter: z.string().min(1).max(64).default("local"),
});

/** Who is in the ring. */
export const ringShape = z
  .array(node)
  .default([])
  .describe("all nodes of the ring with name, address and datacenter, this one included; 1 or 3, for ever; empty = this node alone");

/** What no ring may be; undefined when all is well. */
export function ringProblem(ring: z.output<typeof ringShape>, nodeName: string): string | undefined {
  if (ring.length === 0) return undefined;
  const names = new Set(ring.map((member) => member.name));
  if (ring.length !== 1 && ring.length !== 3) return `a ring has 1 or 3 nodes, not ${ring.length}`;
  if (names.size !== ring.length) return "two nodes have the same name";
  return names.has(nodeName) ? undefined : `this node, ${nodeName}, is not among ${[...names].join(", ")}`;
}
