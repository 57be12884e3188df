// The work of albums.ts done by an application on Cassandra alone, without isolation: its index is a table that it writes itself.
import { randomBytes, randomUUID } from "node:crypto";
import { openDriverSession } from "@concord/adapter-cassandra";
import { nodeClock } from "@concord/adapter-node-runtime";
import { type Engines, engineAddresses } from "@concord/constellation";
import { silentLog } from "@concord/runtime";
import { ALBUMS } from "./albums.ts";

export interface PlainAlbums {
  /** A read at QUORUM, then the three rows in one logged batch. */
  addPhotoLogged(): Promise<void>;
  /** A read at QUORUM, then one lightweight transaction per row; the counter's again until its condition holds. */
  addPhotoByRow(): Promise<void>;
  close(): Promise<void>;
}

const SETTINGS = { timeoutMs: 5_000 } as const;
const DATACENTER = "dc1";
/** Of three datacenters one each, of one datacenter three: as a constellation's tables have. */
const REPLICAS_MAX = 3;

export const addresses = (engines: Engines): readonly string[] => engineAddresses("cassandra", engines.folder);

export async function openPlainAlbums(engines: Engines): Promise<PlainAlbums> {
  const contactPoints = addresses(engines);
  const session = await openDriverSession({
    contactPoints,
    datacenter: DATACENTER,
    credentials: undefined,
    certificateAuthority: undefined,
    clock: nodeClock,
    log: silentLog,
    onNodeUp: () => undefined,
  });
  const name = `bench_${randomBytes(4).toString("hex")}`;
  const nodes = Map.groupBy(session.nodes(), ({ datacenter }) => datacenter);
  const replicas = Array.from(
    nodes,
    ([datacenter, { length }]) => `'${datacenter}': ${nodes.size > 1 ? 1 : Math.min(REPLICAS_MAX, length)}`,
  );
  await session.define(
    `CREATE KEYSPACE IF NOT EXISTS ${name} WITH replication = {'class': 'NetworkTopologyStrategy', ${replicas.join(", ")}}`,
  );
  await session.define(`CREATE TABLE IF NOT EXISTS ${name}.albums (id bigint PRIMARY KEY, owner text, public_photos int)`);
  await session.define(
    `CREATE TABLE IF NOT EXISTS ${name}.photos (album bigint, id text, owner text, modified bigint, public int, PRIMARY KEY (album, id))`,
  );
  await session.define(
    `CREATE TABLE IF NOT EXISTS ${name}.by_owner (owner text, modified bigint, album bigint, id text, public int, PRIMARY KEY (owner, modified, album, id))`,
  );
  for (let id = 1n; id <= BigInt(ALBUMS); id += 1n) {
    const query = `INSERT INTO ${name}.albums (id, owner, public_photos) VALUES (?, ?, ?)`;
    await session.write([{ query, parameters: [id, `owner-${id}`, 0] }], SETTINGS);
  }
  const read = async (): Promise<{ readonly id: bigint; readonly owner: string; readonly photos: number }> => {
    const id = BigInt(1 + Math.floor(Math.random() * ALBUMS));
    const query = `SELECT owner, public_photos FROM ${name}.albums WHERE id = ?`;
    const { rows } = await session.read({ query, parameters: [id] }, { ...SETTINGS, consistency: "quorum" });
    return { id, owner: rows[0]!["owner"] as string, photos: Number(rows[0]!["public_photos"]) };
  };
  const inserts = (album: bigint, owner: string, condition: string) => {
    const [id, modified] = [randomUUID(), BigInt(Date.now())];
    const photo = `INSERT INTO ${name}.photos (album, id, owner, modified, public) VALUES (?, ?, ?, ?, 1)${condition}`;
    const index = `INSERT INTO ${name}.by_owner (owner, modified, album, id, public) VALUES (?, ?, ?, ?, 1)${condition}`;
    return [
      { query: photo, parameters: [album, id, owner, modified] },
      { query: index, parameters: [owner, modified, album, id] },
    ];
  };
  const raise = `UPDATE ${name}.albums SET public_photos = ? WHERE id = ?`;
  return {
    addPhotoLogged: async () => {
      const { id, owner, photos } = await read();
      await session.writeLogged([...inserts(id, owner, ""), { query: raise, parameters: [photos + 1, id] }], SETTINGS);
    },
    addPhotoByRow: async () => {
      const { id, owner, photos } = await read();
      for (const insert of inserts(id, owner, " IF NOT EXISTS")) await session.compareAndSet([insert], SETTINGS);
      for (let expected = photos; ;) {
        const query = `${raise} IF public_photos = ?`;
        const { isApplied, rows } = await session.compareAndSet([{ query, parameters: [expected + 1, id, expected] }], SETTINGS);
        if (isApplied) return;
        expected = Number(rows[0]!["public_photos"]);
      }
    },
    close: async () => {
      await session.define(`DROP KEYSPACE IF EXISTS ${name}`);
      await session.close();
    },
  };
}
