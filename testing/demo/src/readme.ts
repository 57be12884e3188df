// The README's samples, run as they stand from the folder into which the client was installed; only the addresses are this run's.
import { execFile } from "node:child_process";
import { existsSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { type Constellation, CREDENTIALS_FILE, EVERYTHING, planFromBase, PORT_BASE } from "@concord/constellation";
import type { Verdict } from "./figures.ts";

const README = resolve(import.meta.dirname, "../../../README.md");
const SAMPLE_MS = 30_000;

/** The ```js blocks of a document. */
export function samplesOf(markdown: string): string[] {
  return [...markdown.matchAll(/^```js\n([\s\S]*?)^```$/gm)].map((match) => match[1]!);
}

/** `dataFolder`: where the constellation keeps its S3 credentials. */
export async function readmeScenario(constellation: Constellation, folder: string, dataFolder: string): Promise<Verdict> {
  const sdk = join(folder, "node_modules/@aws-sdk");
  if (!existsSync(sdk)) symlinkSync(resolve(README, "../node_modules/@aws-sdk"), sdk);
  const env = { ...process.env, AWS_SHARED_CREDENTIALS_FILE: join(dataFolder, CREDENTIALS_FILE) };
  const samples = samplesOf(readFileSync(README, "utf8"));
  const addresses = new Map(
    planFromBase(PORT_BASE, EVERYTHING).flatMap((node, at) => {
      const here = constellation.nodes[at]!;
      return [
        [node.address, here.address] as const,
        ...(node.httpAddress === undefined ? [] : [[node.httpAddress, here.httpAddress!] as const]),
      ];
    }),
  );
  const said: string[] = [];
  for (const [at, sample] of samples.entries()) {
    const file = join(folder, `readme-${at + 1}.mjs`);
    writeFileSync(
      file,
      sample.replaceAll(/127\.0\.0\.1:\d+/g, (address) => addresses.get(address) ?? address),
    );
    try {
      const { stdout } = await promisify(execFile)(process.execPath, [file], { cwd: folder, timeout: SAMPLE_MS, env });
      said.push(stdout.trim().split("\n").join(", "));
    } catch (error) {
      return { held: false, line: `README: sample ${at + 1} failed: ${String((error as { stderr?: string }).stderr ?? error)}` };
    }
    if (said.at(-1) === "") return { held: false, line: `README: sample ${at + 1} said nothing` };
  }
  return { held: samples.length >= 4, line: `README: ${samples.length} samples ran: ${said.join("; ")}` };
}
