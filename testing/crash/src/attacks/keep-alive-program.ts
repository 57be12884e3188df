// A program of its own, so that other work does not delay its requests: GETs on as many kept connections as asked for, until the server takes no more.
// Prints "begun" for each connection once its first answer is there, and then how it ended.
import { Agent, request } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";

const PAUSE_MS = 10;

/** Requests on one connection, and on another one when that was ended. */
async function requests(address: string): Promise<string> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const once = (): Promise<void> =>
    new Promise((resolve, reject) => {
      request(`http://${address}/no-bucket/key`, { agent }, (answer) => answer.on("end", resolve).on("error", reject).resume())
        .on("error", reject)
        .end();
    });
  try {
    await once();
    console.log("begun");
    for (;;) {
      await sleep(PAUSE_MS);
      await once();
    }
  } catch (error) {
    return (error as { readonly code?: string }).code ?? String(error);
  } finally {
    agent.destroy();
  }
}

const [address, connections] = process.argv.slice(2);
if (address === undefined) throw new Error("usage: keep-alive-program.ts HOST:PORT CONNECTIONS");
await Promise.all(Array.from({ length: Number(connections) }, async () => console.log(await requests(address))));
