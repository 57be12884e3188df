// ARCHITECTURE.md says what is: its lists of files and functions, their counts, and the layer of every project.
import { lineOf, type Reference } from "./reference.ts";
import type { Repository } from "./repository.ts";

const FILE = "ARCHITECTURE.md";
const DATA_PATH = /^### .*: (\d+) files to the durable line$([\s\S]*?)(?=^##)/gm;
const STEP = /^\d+\. `([^`]+)` `([^`]+)`/gm;
const LAYER_RULES = "tools/boundaries/rules.ts";
const LAYER_RULE = /^ {2}(\w+): \[("base".*|"protos"|)\],$/gm;
const LAYER_ROW = /^\| (\w+) \| ([\w, ]+) \| ([^|`]*) \|$/gm;
/** The row of tools stands for all of them. */
const PROJECT = /^(?:apps|libs|protos|testing)\/(?:.*\/)?package\.json$/;

export function architectureReferences(repository: Repository): Reference[] {
  if (!repository.has(FILE)) return [];
  const document = repository.read(FILE);
  return [...dataPaths(repository, document), ...layers(repository, document)];
}

function dataPaths(repository: Repository, document: string): Reference[] {
  return [...document.matchAll(DATA_PATH)].flatMap((match) => {
    const [heading, count, body] = match;
    const steps = [...body!.matchAll(STEP)];
    const line = lineOf(document, match.index);
    const text = heading.split("\n")[0]!;
    const marks = body!.split("**[durable]**").length - 1;
    return [
      reference("path", line, text, steps.length === Number(count) ? undefined : `lists ${steps.length}`),
      reference("path", line, text, marks === 1 ? undefined : `marks ${marks} durable lines`),
      ...steps.map(([, file, name]) => reference("path", line, `${file} ${name}`, stepProblem(repository, file!, name!))),
    ];
  });
}

function stepProblem(repository: Repository, file: string, name: string): string | undefined {
  if (!repository.has(file)) return "no such file";
  const words = new Set(repository.read(file).match(/#?\w+/g));
  return words.has(name) ? undefined : "the file has no such function";
}

function layers(repository: Repository, document: string): Reference[] {
  const section = /^## Layers$[\s\S]*?(?=^## )/m.exec(document)?.[0] ?? "";
  const [, ...rows] = section.matchAll(LAYER_ROW);
  const projects = new Map(rows.map(([, layer, , listed]) => [layer!, new Set(listed!.split(", "))]));
  const allowed = new Map(
    [...repository.read(LAYER_RULES).matchAll(LAYER_RULE)].map(([, layer, list]) => [layer!, list!.replaceAll('"', "")]),
  );
  return [
    ...rows.map(([, layer, imports]) => reference("document", 1, `layer ${layer}`, importsProblem(allowed.get(layer!), imports!))),
    ...repository.files.filter((file) => PROJECT.test(file)).map((file) => projectReference(repository, projects, file)),
  ];
}

function importsProblem(allowed: string | undefined, said: string): string | undefined {
  return said === allowed ? undefined : `may import ${allowed ?? "nothing: there is no such layer"}`;
}

function projectReference(repository: Repository, rows: ReadonlyMap<string, ReadonlySet<string>>, file: string): Reference {
  const { name, nx } = JSON.parse(repository.read(file)) as { name: string; nx?: { tags?: string[] } };
  const layer = nx?.tags?.[0]?.replace("layer:", "") ?? "none";
  const project = name.replace("@concord/", "");
  const listed = rows.get(layer)?.has(project) ?? false;
  return reference("document", 1, file, listed ? undefined : `the row of layer ${layer} does not list ${project}`);
}

const reference = (kind: Reference["kind"], line: number, text: string, problem: string | undefined): Reference => ({
  kind,
  file: FILE,
  line,
  text,
  problem,
});
