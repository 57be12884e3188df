// `concord version`: which build this is.
import { versionText, type Build } from "@concord/config";
import { command, type Command } from "./command.ts";

const HELP = `usage: concord version [--json]

Prints the version, the commit of the build ("unknown": it runs from its sources) and Node's version. It asks no server: \`concord status\` does.

examples:
  concord version --json
`;

export function versionCommand(build: () => Build): Command {
  return command(
    { name: "version", summary: "version, commit and Node's version", help: HELP, options: { json: { type: "boolean" } } },
    ({ values }, { out }) => {
      out(values["json"] === true ? JSON.stringify(build()) : versionText("concord", build()).trimEnd());
      return Promise.resolve(0);
    },
  );
}
