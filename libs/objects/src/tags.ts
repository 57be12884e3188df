import type { ObjectStore } from "./api.ts";
import { changeObject } from "./change-object.ts";
import type { ObjectStoreContext } from "./context.ts";
import { objectWithoutKey } from "./get-object.ts";
import { checkTags } from "./names.ts";
import type { StoredObject } from "./rows.ts";

/** Of the object, or of one version of it. */
export async function objectTags(
  context: ObjectStoreContext,
  { judge, ...request }: Parameters<ObjectStore["objectTags"]>[0],
): Promise<Readonly<Record<string, string>>> {
  const object = await objectWithoutKey(context, { ...request, precondition: { judge } });
  return object.attributes.tags;
}

/** Judged by the very row that it replaces, so what a right depends on cannot change in between. */
export async function setObjectTags(
  context: ObjectStoreContext,
  { tags, judge, ...name }: Parameters<ObjectStore["setObjectTags"]>[0],
): Promise<void> {
  checkTags("object", tags);
  const change = (object: StoredObject): StoredObject => {
    judge?.(object);
    return { ...object, attributes: { ...object.attributes, tags } };
  };
  const event = Object.keys(tags).length === 0 ? "ObjectTagging:Delete" : "ObjectTagging:Put";
  await changeObject(context, { ...name, what: "tags were", changes: "attributes", event, change });
}
