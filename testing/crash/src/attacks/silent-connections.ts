// Connections that are opened and never say anything.
import { connect, type Socket } from "node:net";
import type { Attack } from "./attack.ts";

const CONNECTIONS = 500;
/** More than the process needs for its stores, and fewer than the attacker opens. */
const DESCRIPTORS_MAX = 320;

/** Opens connections to host:port; those that are refused or closed count as tried. */
export async function openSilently(address: string, count: number): Promise<readonly Socket[]> {
  const [host, port] = address.split(":") as [string, string];
  const open = (): Promise<Socket> =>
    new Promise((resolve) => {
      const socket = connect(Number(port), host);
      const done = (): void => resolve(socket);
      socket
        .once("connect", done)
        .once("error", done)
        .on("error", () => undefined);
    });
  return Promise.all(Array.from({ length: count }, open));
}

export const silentS3Connections: Attack = {
  name: "silent-s3-connections",
  symptom: "500 connections to the S3 port of a process that may open 320 files: EMFILE in the log, uploads reset",
  isShort: true,
  descriptorsMax: DESCRIPTORS_MAX,
  async run(target) {
    const sockets = await openSilently(target.httpAddress, CONNECTIONS);
    try {
      await target.serves(`while ${CONNECTIONS} connections to the S3 port are silent`);
      target.note(`${sockets.filter(({ destroyed }) => !destroyed).length} of ${CONNECTIONS} silent connections were still open`);
    } finally {
      for (const socket of sockets) socket.destroy();
    }
  },
};

export const silentGrpcConnections: Attack = {
  name: "silent-grpc-connections",
  symptom:
    "400 connections to the gRPC port of a process that may open 256 files took all of them; a store that could open no file ended it",
  isShort: true,
  descriptorsMax: DESCRIPTORS_MAX,
  async run(target) {
    const sockets = await openSilently(target.address, CONNECTIONS);
    try {
      await target.serves(`while ${CONNECTIONS} connections to the gRPC port are silent`);
      target.note(`${sockets.filter(({ destroyed }) => !destroyed).length} of ${CONNECTIONS} silent connections were still open`);
    } finally {
      for (const socket of sockets) socket.destroy();
    }
  },
};
