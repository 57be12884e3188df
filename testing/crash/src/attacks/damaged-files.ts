// A disk that flips a bit of any file of a store, or loses a block of it, while the node is stopped: the services that do not use that store serve.
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type Draw, drawing, type Harm, harmFile, type Kind, KINDS } from "../store-damage.ts";
import type { Attack, Target } from "./attack.ts";
import { SERVED, type Served } from "./bystanders.ts";

const LOOK_MS = 100;
const START_MS_MAX = 120_000;
/** A service of the damaged part that acknowledges nothing for so long is counted as out. */
const ACKNOWLEDGE_MS = 10_000;
const HARMS: readonly Harm[] = ["bit flip", "lost block"];
/** Damage there takes acknowledged writes away, and an opening reports it: store-damage.ts counts them. */
const LOSES_WRITES = "journal's newest group";
/** Tables never change: one that is still there gets its sound bytes back, also after the node has served with the damage. */
const TABLES = /\.ldb$/;
const WITHOUT_BLOCKS: readonly string[] = ["table", "filter block", "table's end"];

interface Part {
  readonly name: string;
  readonly store: string;
  readonly services: readonly Served[];
}

const PARTS: readonly Part[] = [
  { name: "storage", store: "storage/store", services: ["storage-proxy", "txn-coordinator"] },
  { name: "objects", store: "objects/metadata", services: ["object-gateway"] },
  { name: "messages", store: "messages/meta", services: ["dedup-worker"] },
];

/** Services that served while a file was damaged, of how many. */
interface Count {
  up: number;
  all: number;
}

class DamagedFiles {
  readonly #target: Target;
  readonly #draw: Draw = drawing();
  readonly #others: Count = { up: 0, all: 0 };
  readonly #ofPart: Count = { up: 0, all: 0 };
  #trials = 0;

  constructor(target: Target) {
    this.#target = target;
  }

  async run(): Promise<void> {
    for (const kind of KINDS.filter((one) => one.kind !== LOSES_WRITES)) {
      for (const harm of HARMS) await this.#trial(kind, harm);
    }
    const { up, all } = this.#others;
    const onPart = this.#ofPart;
    this.#target.note(
      `${this.#trials} files damaged: ${up} of ${all} services of other parts served, ${onPart.up} of ${onPart.all} of the damaged one`,
    );
  }

  async #trial(kind: Kind, harm: Harm): Promise<void> {
    const target = this.#target;
    await target.stop();
    const found = this.#fileOf(kind);
    if (found === undefined) return target.fail(`there is no ${kind.kind}: the attack harmed nothing`);
    const { part, path } = found;
    const sound = readFileSync(path);
    const content = Buffer.from(sound);
    const place = harmFile(content, kind, harm, this.#draw);
    writeFileSync(path, content);
    const what = `${kind.kind} of ${part.name}, ${harm} at ${place} of ${content.length}`;
    target.constellation.process(target.name).spawn();
    const isOut = await this.#started(part, what);
    target.bystanders.resume();
    await this.#count(part, what, isOut);
    await target.stop();
    if (isOut || (TABLES.test(path) && existsSync(path))) writeFileSync(path, sound);
    await target.start();
    await target.serves(`after ${what} was put back`);
  }

  /** A file of the kind, of each part in turn, or of the next one that has it. Damaged tables of rows are served without their blocks: `damaged-block.ts`. */
  #fileOf({ kind, pattern }: Kind): { readonly part: Part; readonly path: string } | undefined {
    const first = this.#trials++;
    for (let at = 0; at < PARTS.length; at += 1) {
      const part = PARTS[(first + at) % PARTS.length];
      if (part === undefined || (part.name === "storage" && WITHOUT_BLOCKS.includes(kind))) continue;
      const folder = join(this.#target.dataFolder(this.#target.name), part.store);
      const names = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((name) => pattern.test(name));
      const name = names.toSorted()[names.length === 0 ? 0 : this.#draw(names.length)];
      if (name !== undefined) return { part, path: join(folder, name) };
    }
    return undefined;
  }

  /** Waits until the node is ready, or reports that the part is out; returns whether it is. */
  async #started({ name }: Part, what: string): Promise<boolean> {
    const { adminAddress } = this.#target;
    const until = Date.now() + START_MS_MAX;
    for (let text = ""; ; await sleep(LOOK_MS)) {
      const response = await fetch(`http://${adminAddress}/readyz`, { headers: { connection: "close" } }).catch(() => undefined);
      if (response?.ok === true) return false;
      text = (await response?.text()) ?? "no answer";
      if (text.includes(`${name} is out`)) return true;
      if (Date.now() < until) continue;
      this.#target.fail(`${what}: after ${START_MS_MAX / 1000} s the node is neither ready nor reports ${name}: ${text}`);
      return true;
    }
  }

  async #count({ services }: Part, what: string, isOut: boolean): Promise<void> {
    const others = SERVED.filter((service) => !services.includes(service));
    const { bystanders } = this.#target;
    await this.#target.serves(`while ${what} is damaged`, services);
    const down = isOut ? services : await bystanders.unserved(ACKNOWLEDGE_MS, others);
    this.#others.all += others.length;
    this.#others.up += others.filter((service) => !this.#target.lost.has(service)).length;
    this.#ofPart.all += services.length;
    this.#ofPart.up += services.length - down.length;
    console.log(`  ${what}: ${down.length === 0 ? "all serve" : `${down.join(", ")} out`}`);
  }
}

export const damagedFiles: Attack = {
  name: "damaged-files",
  symptom: "trials counted what an opening reported, not the services that stayed up: one flipped bit ended all four",
  isShort: false,
  run: (target) => new DamagedFiles(target).run(),
};
