import type { SeededFault } from "./seeded-fault.ts";

const COMMIT_ROWS = "libs/objects/src/commit-rows.ts";
const DELETE_OBJECT = "libs/objects/src/delete-object.ts";
const LIFECYCLE_PAGE = "libs/objects/src/lifecycle/lifecycle-page.ts";
const FRAMES = "libs/objects/src/encryption/frames.ts";
const VERSIONS = "libs/objects/src/versions.ts";
const EPOCH_FOLDERS = "libs/adapter-filesystem/src/epoch-folders.ts";
const COLLECTOR = "libs/objects/src/garbage/garbage-collector.ts";

/** Mistakes in the object gateway. */
export const OBJECT_FAULTS: readonly SeededFault[] = [
  {
    name: "unknown-commit-removed",
    about: "A commit with a lost answer is taken for failed: its blob is removed while the row may be there (OGD2).",
    scenario: "object",
    edits: [
      {
        file: COMMIT_ROWS,
        search: "      return await waitForDecision(context, attempt, outcome.cause);",
        replace:
          '      await removeBlobs(context, attempt.names);\n      return await decided(attempt, "absent", { kind: "fenced", applied: "unknown" });',
      },
    ],
  },
  {
    name: "fence-missing",
    about: "A commit indeterminate that a read does not show is taken for lost, without a fence: it may arrive later (OGD2).",
    scenario: "object",
    edits: [
      {
        file: COMMIT_ROWS,
        search: "writes: [...(needed ? [raiseHeader(context, header)] : []), ...(attempt",
        replace: "writes: [...(attempt",
      },
    ],
  },
  {
    name: "garbage-in-a-commit-of-its-own",
    about: "Delete removes the row in one commit and names its blobs as garbage in the next: a crash between them leaks (OGD4).",
    scenario: "object",
    edits: [
      {
        file: DELETE_OBJECT,
        search: "      ...(left === undefined ? [] : [putGarbage(context, guid, { bucket, key, what: left })]),\n",
        replace: "",
      },
      {
        file: DELETE_OBJECT,
        search: '  if (outcome.kind === "committed") return "deleted";',
        replace:
          '  if (outcome.kind === "committed" && left !== undefined) {\n' +
          "    const writes = [putGarbage(context, guid, { bucket, key, what: left })];\n" +
          "    await context.metadata.commit({ partition: view.partition, conditions: [], writes });\n" +
          '  }\n  if (outcome.kind === "committed") return "deleted";',
      },
    ],
  },
  {
    name: "delete-whatever-is-there",
    about: "Delete removes the row of the key also when it is not the one that was read: a newer object is lost, its blob leaks (OGD4).",
    scenario: "object",
    edits: [
      {
        file: DELETE_OBJECT,
        search: "conditions: [headerCondition(view), { key: headKey(key), version: found.version }],",
        replace: "conditions: [headerCondition(view)],",
      },
    ],
  },
  {
    name: "replaced-blob-forgotten",
    about: "An overwrite names no garbage: the blob of the object it replaced leaks (OGD4).",
    scenario: "object",
    edits: [
      {
        file: VERSIONS,
        search:
          "    writes: [...(left === undefined ? [] : [putGarbage(context, guid, { bucket, key, what: left })]), ...bodyLeftBy(key, old)],",
        replace: "    writes: [...bodyLeftBy(key, old)],",
      },
    ],
  },
  {
    name: "replaced-body-left",
    about: "An overwrite leaves the body beside the row that it replaces: nothing names it any more, and nothing removes it (OGD4).",
    scenario: "object",
    edits: [{ file: VERSIONS, search: ", ...bodyLeftBy(key, old)],", replace: ", ...bodyLeftBy(key, undefined)]," }],
  },
  {
    name: "moved-version-without-its-body",
    about: "A put into a versioned bucket removes the body of the version that it moves: reads of that version by its id fail.",
    scenario: "object",
    edits: [
      {
        file: VERSIONS,
        search: "      const writes = head === undefined ? [] : [moveAside(view.key, head, rowVersion)];",
        replace:
          "      const writes = head === undefined ? [] : [moveAside(view.key, head, rowVersion), ...bodyLeftBy(view.key, head.row)];",
      },
    ],
  },
  {
    name: "get-does-not-look-again",
    about: "A read that finds the head, and its body gone, does not look at the head again: an overwrite between the two answers 500.",
    scenario: "object",
    notFoundYet: true,
    edits: [
      {
        file: "libs/objects/src/get-object.ts",
        search: "    missed = refuseDangling(context, object.content, missed);",
        replace:
          '    missed = object.content.kind === "beside" ? object.content.guid : undefined;\n' +
          "    missed = refuseDangling(context, object.content, missed);",
      },
    ],
  },
  {
    name: "versions-unknown-to-collection",
    about: "Recovery and collection look for a blob in the head of its key only: blobs of earlier versions are removed (OGD1).",
    scenario: "object",
    edits: [{ file: "libs/objects/src/recovery/older-versions.ts", search: "    page.forEach(note);\n", replace: "" }],
  },
  {
    name: "newest-removed-nothing-promoted",
    about: "Removing the newest version removes the head, and no other version takes its place: they are not found any more.",
    scenario: "object",
    edits: [
      {
        file: VERSIONS,
        search: "  const { head, next } = await newestOlder(context, view);",
        replace: "  const { head } = await newestOlder(context, view);\n  const next = undefined as MetadataRow | undefined;",
      },
    ],
  },
  {
    name: "replaced-version-dropped",
    about: "A put into a versioned bucket does not keep the version that it replaces: its data leaks, and reads by its id fail.",
    scenario: "object",
    edits: [
      {
        file: VERSIONS,
        search: "      const writes = head === undefined ? [] : [moveAside(view.key, head, rowVersion)];",
        replace: "      const writes: MetadataWrite[] = [];",
      },
    ],
  },
  {
    name: "put-by-versioning-of-before",
    about: "After a conflict a put goes on as if its bucket still kept no versions: what it replaces after versioning is on, is gone.",
    scenario: "object",
    edits: [
      {
        file: "libs/objects/src/put-object.ts",
        search: "        view = await lookAgain(context, result.view, upload);\n",
        replace:
          "        const { header } = view;\n" +
          "        view = await lookAgain(context, result.view, upload);\n" +
          "        view = { ...view, header: { version: view.header.version, row: header.row } };\n",
      },
    ],
  },
  {
    name: "judged-once",
    about: "A write is not looked at again by the settings of its bucket: one that a policy forbids commits after the policy was answered.",
    scenario: "object",
    edits: [
      {
        file: "libs/objects/src/shard-view.ts",
        search: "  if (judged?.bucket === bucket && (settings ?? 0n) > judged.settings)\n",
        replace: "  if (judged?.bucket === bucket && (settings ?? 0n) > judged.settings + 1_000_000n)\n",
      },
    ],
  },
  {
    name: "garbage-forgotten-after-an-error",
    about: "A GC entry whose blobs could not be removed goes all the same: they leak (OGD10).",
    scenario: "object",
    edits: [
      {
        file: COLLECTOR,
        search: "{ partition, reason: toConcordError(thrown).message });\n      return false;",
        replace: "{ partition, reason: toConcordError(thrown).message });\n      return true;",
      },
    ],
  },
  {
    name: "seal-without-sync",
    about: "A blob is sealed before its bytes are on disk (OGD6): a power cut leaves a row that names half a blob.",
    scenario: "object",
    edits: [
      {
        file: "libs/adapter-filesystem/src/blob-writer.ts",
        search: 'file.sync().then(() => failpoint("piece:synced"))',
        replace: 'Promise.resolve().then(() => failpoint("piece:synced"))',
      },
    ],
  },
  {
    name: "closed-epoch-still-seals",
    about: "A seal does not look whether its epoch was closed meanwhile: recovery saw a blob without description (OGD3).",
    scenario: "object",
    notFoundYet: true,
    edits: [
      { file: EPOCH_FOLDERS, search: "    await check.join();", replace: "    void check;" },
      {
        file: EPOCH_FOLDERS,
        search: "    await this.syncNew(epoch, openFolder(oid));",
        replace: "    await this.#sync(openFolder(oid)).catch(() => this.#sync(closedFolder(oid)));",
      },
    ],
  },
  {
    name: "epoch-folder-removed-with-blobs",
    about: "Segments do not count as blobs when the folder of a recovered epoch is removed: packed objects are lost (OGD3).",
    scenario: "object",
    edits: [
      {
        file: "libs/adapter-filesystem/src/epoch-sweep.ts",
        search: "isRemovals(name) || isDraft(name) ||",
        replace: 'name.startsWith("seg-") || isRemovals(name) || isDraft(name) ||',
      },
    ],
  },
  {
    name: "low-water-passes-the-unresolved",
    about: "The low-water mark runs ahead of names that are not resolved: recovery does not look at them (OGD7).",
    scenario: "object",
    edits: [
      {
        file: "libs/objects/src/reservation/names.ts",
        search: "    for (const lowest of this.#unresolved) {\n",
        replace: "    for (const lowest of [] as number[]) {\n",
      },
    ],
  },
  {
    name: "checkpoint-forgets-the-running",
    about: "A checkpoint lists nothing, and what lies before it is dropped (OGD7): uploads that were running leak at a crash.",
    scenario: "object",
    edits: [
      {
        file: "libs/objects/src/journal-modes/open-upload-journal.ts",
        search: "encodeCheckpoint(this.#transactions.snapshot())",
        replace: "encodeCheckpoint(new UnresolvedTransactions().snapshot())",
      },
    ],
  },
  {
    name: "further-block-not-recorded",
    about: "A further block of names is not in the epoch's row: recovery would not look for their blobs (I10 of the objects README, OGD6).",
    scenario: "object",
    edits: [
      {
        file: "libs/objects/src/reservation/gateway-epoch.ts",
        search: "return { ...row, reservedTo: from + this.#blockNames, lowWater",
        replace: "return { ...row, lowWater",
      },
    ],
  },
  {
    name: "part-accepted-while-completing",
    about: "A part's commit does not name the upload's state: it replaces a part that complete has named (OGD11).",
    scenario: "object",
    edits: [
      {
        file: "libs/objects/src/multipart/put-part.ts",
        search: "conditions: [uploadCondition(name, upload)],",
        replace: "conditions: [],",
      },
    ],
  },
  {
    name: "lifecycle-removes-whatever-is-there",
    about: "A lifecycle rule removes what it finds, not only what it judged: an object that no rule is for is lost (OGD18).",
    scenario: "object",
    edits: [
      {
        file: LIFECYCLE_PAGE,
        search: "await deleteObject(context, { bucket: bucket.name, key, versionId, exactly });",
        replace: "await deleteObject(context, { bucket: bucket.name, key, versionId });",
      },
    ],
  },
  {
    name: "lifecycle-uncovers-what-was-deleted",
    about: "A delete marker goes though versions are behind it: what was deleted comes back (OGD18).",
    scenario: "object",
    edits: [
      {
        file: LIFECYCLE_PAGE,
        search: "isOnly = (await expireOlder(work, key, head)) === 0;",
        replace: "isOnly = (await expireOlder(work, key, head)) >= 0;",
      },
    ],
  },
  {
    name: "copy-stored-in-plaintext",
    about: "A copy is not encrypted though its bucket demands it (OGD23).",
    scenario: "object",
    edits: [{ file: "libs/objects/src/copy-object.ts", search: "    encryption: request.encryption,\n", replace: "" }],
  },
  {
    name: "encrypted-range-from-its-first-frame",
    about: "A range of an encrypted object begins where its first frame does: bytes of another place (OGD24).",
    scenario: "object",
    edits: [
      {
        file: FRAMES,
        search: "    skip: offset - first * FRAME_BYTES,",
        replace: "    skip: Math.max(0, offset - (first + 1) * FRAME_BYTES),",
      },
    ],
  },
  {
    name: "encrypted-blob-verified-by-its-plaintext-length",
    about: "Scrubs and checks take an encrypted blob for as long as its object: what is whole is reported as damaged (OGD24).",
    scenario: "object",
    edits: [
      {
        file: "libs/objects/src/consistency/row-findings.ts",
        search: "lengthBytes: sealedLength(named.lengthBytes) };",
        replace: "lengthBytes: named.lengthBytes };",
      },
    ],
  },
  {
    name: "unnamed-parts-leak",
    about: "Parts that a complete does not name lose their rows, and their blobs are garbage that no entry names (OGD1).",
    scenario: "object",
    edits: [
      {
        file: "libs/objects/src/multipart/complete-upload.ts",
        search:
          '    putGarbage(context, await context.guids.next(), { bucket, key, what: { kind: "blobs", oids } }),\n  ];\n}\n\n/** Undefined',
        replace: "  ];\n}\n\n/** Undefined",
      },
    ],
  },
  {
    name: "repeated-complete-of-other-parts",
    about: "A complete of an upload that is done is answered as the first one, also where it names other parts.",
    scenario: "object",
    edits: [
      {
        file: "libs/objects/src/multipart/complete-upload.ts",
        search: "  if (!same || context.clock",
        replace: "  if (context.clock",
      },
    ],
  },
  {
    name: "next-page-of-parts-begins-again",
    about: "Each page of an object's parts is the first one.",
    scenario: "object",
    edits: [
      {
        file: "libs/objects/src/get-object.ts",
        search: "content.parts.filter(({ number }) => number > request.after);",
        replace: "content.parts.filter(({ number }) => number > 0);",
      },
    ],
  },
  {
    name: "abort-leaves-its-parts",
    about:
      "An abort removes the upload without a GC entry for its parts: rows of parts that nothing counts on keep their blobs (OGD9, OGD11).",
    scenario: "object",
    edits: [
      {
        file: "libs/objects/src/multipart/abort-upload.ts",
        search: "    putRow(garbageKey(dueMs, guid), { commit: context.clock.nowUs(), guid }, garbage),\n",
        replace: "",
      },
    ],
  },
];
