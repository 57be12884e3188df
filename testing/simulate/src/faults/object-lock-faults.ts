import type { SeededFault } from "./seeded-fault.ts";

const PUT_OBJECT = "libs/objects/src/put-object.ts";
const LIFECYCLE_PAGE = "libs/objects/src/lifecycle/lifecycle-page.ts";

/** Mistakes in what keeps locked versions (OGD21). */
export const OBJECT_LOCK_FAULTS: readonly SeededFault[] = [
  {
    name: "removal-passes-a-new-lock",
    about: "A removal does not name the version's row: one that is locked between its look and its commit goes.",
    scenario: "object",
    edits: [
      {
        file: "libs/objects/src/delete-object.ts",
        search: "conditions: [headerCondition(view), { key: found.rowKey, version: found.version }, ...rest.conditions],",
        replace: "conditions: [headerCondition(view), ...rest.conditions],",
      },
    ],
  },
  {
    name: "locks-end-by-the-wall-clock",
    about: "A lock has ended when the wall clock says so: a gateway whose clock steps ahead removes what is locked.",
    scenario: "object",
    edits: [
      {
        file: "libs/objects/src/lock-time.ts",
        search: "return Math.floor((await this.#run()).bounded.nowMs());",
        replace: "return this.#context.clock.nowMs();",
      },
    ],
  },
  {
    name: "default-lock-of-before",
    about: "A put takes the bucket's default retention of its first look: one that commits after another default was answered lacks it.",
    scenario: "object",
    edits: [
      {
        file: PUT_OBJECT,
        search: "attributes, acl, lock, precondition, event });",
        replace: "attributes, acl, lock: (await lockOfNew(context, view.header.row, lock)).lock, precondition, event });",
      },
      {
        file: PUT_OBJECT,
        search: "const lock = await lockOfNew(context, view.header.row, upload.lock);",
        replace: "const lock = upload.lock === undefined ? {} : { lock: upload.lock };",
      },
    ],
  },
  {
    name: "lifecycle-bypasses-governance",
    about: "A lifecycle rule removes what governance mode keeps.",
    scenario: "object",
    edits: [
      {
        file: LIFECYCLE_PAGE,
        search: "isKept(row.lock, await lockTime.judgeMs(), undefined)",
        replace: 'isKept(row.lock, await lockTime.judgeMs(), "governance")',
      },
      {
        file: LIFECYCLE_PAGE,
        search: "await deleteObject(context, { bucket: bucket.name, key, versionId, exactly });",
        replace: 'await deleteObject(context, { bucket: bucket.name, key, versionId, exactly, bypass: "governance" });',
      },
    ],
  },
  {
    name: "retention-may-be-shortened",
    about: "A retention that is in force is replaced by a shorter one.",
    scenario: "object",
    edits: [
      {
        file: "libs/objects/src/object-locks.ts",
        search: "      checkRetentionChange(object.lock?.retention, retention, { nowMs, bypass });\n",
        replace: "",
      },
    ],
  },
];
