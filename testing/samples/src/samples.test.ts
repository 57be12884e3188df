// The samples of README.md and of the client's, each in a folder of its own and twice, on the Node of the system and on the pinned one. The data is new for each Node.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join, resolve } from "node:path";
import { after, before, describe, test } from "node:test";
import { type Constellation, ONE_PROCESS, startConstellation } from "@concord/constellation";
import { requireInstalled } from "./installed.ts";
import { type LocalRegistry, startLocalRegistry } from "./local-registry.ts";
import { type Outputs, pathWithout, runSamples } from "./run-samples.ts";
import { patternOf, sampleOf, samplesIn } from "./sample.ts";

const CLONE = resolve(import.meta.dirname, "../../..");
const OLDEST_MAJOR = 20;
const README = samplesIn(readFileSync(join(CLONE, "README.md"), "utf8"));
const CLIENT = readFileSync(join(CLONE, "libs/client/README.md"), "utf8");
const SAMPLES = [...README.samples, ...["Conditions", "Natural queues"].map((title) => sampleOf(CLIENT, title))];

/** The `node` that a stranger's shell finds. */
function systemNode(): string {
  const folders = pathWithout(process.env["PATH"] ?? "", CLONE).split(delimiter);
  const found = folders.map((folder) => join(folder, "node")).find((path) => existsSync(path));
  if (found === undefined) throw new Error("this test needs a Node on the PATH besides the pinned one");
  return found;
}

const versionOf = (node: string): string => execFileSync(node, ["--version"], { encoding: "utf8" }).trim();

for (const node of [systemNode(), process.execPath]) {
  describe(`README on Node ${versionOf(node)}`, () => {
    let folder: string;
    let registry: LocalRegistry;
    let constellation: Constellation;
    let outputs: Outputs;

    before(async () => {
      assert.ok(Number(versionOf(node).slice(1).split(".")[0]) >= OLDEST_MAJOR, `samples are promised from Node ${OLDEST_MAJOR} on`);
      await requireInstalled(CLONE);
      folder = mkdtempSync(join(tmpdir(), "concord-samples-"));
      registry = await startLocalRegistry(CLONE);
      const dataFolder = join(folder, "data");
      constellation = await startConstellation({ dataFolder, portBase: "free", members: ONE_PROCESS });
      const samples = join(folder, "samples");
      mkdirSync(samples);
      outputs = await runSamples(
        { ...README, samples: SAMPLES },
        { folder: samples, node, clone: CLONE, dataFolder, registry: registry.url, constellation },
        2,
      );
    });

    after(async () => {
      await constellation?.stop();
      await registry?.close();
      rmSync(folder, { recursive: true, force: true });
    });

    for (const { file, output } of SAMPLES) {
      test(`${file}: run twice: says what its README shows`, () => {
        for (const said of outputs.get(file)!) assert.match(said, patternOf(output));
      });
    }

    test("album.mjs: run twice: the counter is the number of photos, the first time as the README shows", () => {
      const counts = outputs.get("album.mjs")!.map((said) => /counts (\d+) photos and has (\d+)/.exec(said)!.slice(1).map(Number));
      assert.deepEqual(counts, [
        [1, 1],
        [2, 2],
      ]);
    });

    test("visits.mjs: run twice: the second run finds the first one's visit", () => {
      const visits = outputs.get("visits.mjs")!.map((said) => Number(/^visit (\d+)/m.exec(said)![1]));
      assert.deepEqual(visits, [1, 2]);
    });
  });
}
