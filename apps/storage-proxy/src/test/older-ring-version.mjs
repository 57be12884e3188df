// Loaded before a node's program (`node --import`): the node has the version of the ring's protocol before ours. A program of an earlier
// commit differs in more, but nothing else of it is ever asked: the handshake comes first.
import { registerHooks } from "node:module";

registerHooks({
  load(url, context, nextLoad) {
    const loaded = nextLoad(url, context);
    if (!url.endsWith("/libs/adapter-ring/src/limits.ts")) return loaded;
    const ours = new TextDecoder().decode(loaded.source);
    const source = ours.replace(/export const RING_PROTOCOL = (\d+);/u, (_, version) => `export const RING_PROTOCOL = ${version - 1};`);
    if (source === ours) throw new Error("limits.ts says the version in other words");
    return { ...loaded, source };
  },
});
