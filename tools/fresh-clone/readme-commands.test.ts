import assert from "node:assert/strict";
import { test } from "node:test";
import { readmeCommands } from "./readme-commands.ts";

test("README commands: shell blocks with prompts, comments and repeats: each npm command once", () => {
  const readme =
    "Text `npm run no`.\n```sh\nnpm init --yes\nnpm --prefix ../concord run x\nnpm install y\n```\n```sh\nnpm start          # three datacenters\n$ npm test\ncd x && npm run no\n```\n```ts\nnpm run no\n```\n```bash\nnpm test\nnpm run simulate -- --seeds 5\n```\n";
  assert.deepEqual(readmeCommands(readme), ["npm start", "npm test", "npm run simulate -- --seeds 5"]);
});
