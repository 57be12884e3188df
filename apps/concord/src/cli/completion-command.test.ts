// `concord completion`, its script in a real bash; zsh and fish are not everywhere: their text alone.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { test } from "node:test";
import { promisify } from "node:util";
import { runVerbHere, type VerbRun } from "../test/verbs.ts";
import { commandsOf, verbsText } from "./commands.ts";

const BUILD = { version: "1.2.3", commit: "abc", node: "v26" };
const commands = commandsOf(() => BUILD);
const run = (name: string, ...args: string[]): Promise<VerbRun> =>
  runVerbHere(
    commands.find((one) => one.name === name)!,
    args,
  );

async function completed(...words: readonly string[]): Promise<readonly string[]> {
  const { out } = await run("completion", "bash");
  const script = `${out}\nCOMP_WORDS=(${words.map((word) => `'${word}'`).join(" ")}); COMP_CWORD=${words.length - 1}; _concord; echo "\${COMPREPLY[@]}"`;
  const { stdout } = await promisify(execFile)("bash", ["-c", script]);
  return stdout.trim().split(" ");
}

test("completion: bash: verbs that begin so, and the options of a verb", async () => {
  assert.deepEqual(await completed("concord", "st"), ["start", "status"]);
  assert.deepEqual(await completed("concord", "cql", "--ro"), ["--rows"]);
  assert.deepEqual(await completed("concord", "repair", "--a"), ["--apply", "--accept-loss"]);
  assert.deepEqual(await completed("concord", "unknown", "--"), [""]);
});

test("completion: every verb and option in each shell's script; another shell: exit code 2", async () => {
  for (const shell of ["bash", "zsh", "fish"]) {
    const { out, code } = await run("completion", shell);
    assert.equal(code, 0);
    for (const { name, options } of commands)
      for (const word of [name, ...Object.keys(options)]) assert.ok(out.includes(word), `${shell}: ${word}`);
  }
  const { code, err } = await run("completion", "powershell");
  assert.equal(code, 2);
  assert.match(err, /give one of bash, zsh, fish/);
});

test("verbs: --help lists each; each has usage and examples; version as text and as JSON", async () => {
  const help = verbsText(() => BUILD);
  for (const { name } of commands) {
    assert.match(help, new RegExp(`^ +concord ${name} `, "m"));
    const { code, out } = await run(name, "--help");
    assert.equal(code, 0);
    assert.match(out, new RegExp(`^usage: concord ${name}.*examples:`, "s"));
  }
  assert.equal((await run("version")).out, "concord 1.2.3 (commit abc, Node v26)\n");
  assert.deepEqual(JSON.parse((await run("version", "--json")).out), BUILD);
});
