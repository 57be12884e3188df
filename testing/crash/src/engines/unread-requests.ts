// What the services have sent to a process that stands still: the kernel knows it as bytes that the process has not read. Linux only.
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { hostAndPort } from "./kafka-placement.ts";

const TABLES = ["/proc/net/tcp", "/proc/net/tcp6"];
const ESTABLISHED = "01";
/** A heartbeat or a question for versions is shorter; any read, write or fetch of the loads is longer. */
const REQUEST_BYTES_MIN = 64;

/** One end of a connection. */
export interface Socket {
  /** host:port */
  readonly local: string;
  readonly remote: string;
  readonly isEstablished: boolean;
  readonly unreadBytes: number;
  readonly inode: string;
}

export interface Unread {
  /** Connections from the services with a request that was not read, and all of these. */
  readonly connections: number;
  readonly of: number;
  readonly bytes: number;
}

/** What processes have sent to the address and was not read there. */
export function unreadRequests(address: string, pids: readonly number[]): Unread {
  return unreadOf(readSockets(), socketsOf(pids), address);
}

export function unreadOf(sockets: readonly Socket[], inodes: ReadonlySet<string>, address: string): Unread {
  const to = sameAddress(address);
  const ours = new Set(
    sockets.filter(({ inode, remote, isEstablished }) => isEstablished && remote === to && inodes.has(inode)).map(({ local }) => local),
  );
  const ends = sockets.filter(({ local, remote }) => local === to && ours.has(remote));
  const asked = ends.filter(({ unreadBytes }) => unreadBytes >= REQUEST_BYTES_MIN);
  return { connections: asked.length, of: ours.size, bytes: asked.reduce((sum, { unreadBytes }) => sum + unreadBytes, 0) };
}

/** A table as the kernel prints it. */
export function parseSockets(table: string): readonly Socket[] {
  return table
    .split("\n")
    .slice(1)
    .filter((line) => line.trim() !== "")
    .map((line) => {
      const [, local, remote, state, queues, , , , , inode] = line.trim().split(/\s+/);
      return {
        local: addressOf(local!),
        remote: addressOf(remote!),
        isEstablished: state === ESTABLISHED,
        unreadBytes: Number.parseInt(queues!.split(":")[1]!, 16),
        inode: inode!,
      };
    });
}

function readSockets(): readonly Socket[] {
  return TABLES.flatMap((table) => parseSockets(readFileSync(table, "utf8")));
}

/** Inodes of all sockets that the processes have open. */
function socketsOf(pids: readonly number[]): ReadonlySet<string> {
  const inodes = new Set<string>();
  for (const pid of pids) {
    const folder = `/proc/${pid}/fd`;
    for (const name of readdirSync(folder)) {
      const inode = inodeOf(`${folder}/${name}`);
      if (inode !== undefined) inodes.add(inode);
    }
  }
  return inodes;
}

function inodeOf(descriptor: string): string | undefined {
  try {
    return /^socket:\[(\d+)\]$/.exec(readlinkSync(descriptor))?.[1];
  } catch {
    // Closed meanwhile.
    return undefined;
  }
}

function sameAddress(address: string): string {
  const [host, port] = hostAndPort(address);
  return `${host === "localhost" ? "127.0.0.1" : host}:${port}`;
}

/** IPv4, also within IPv6, as the JVM has it: the last four bytes, in the order of this machine, little-endian. */
function addressOf(hex: string): string {
  const [host, port] = hex.split(":");
  const bytes = Buffer.from(host!.slice(-8), "hex").reverse();
  return `${bytes.join(".")}:${Number.parseInt(port!, 16)}`;
}
