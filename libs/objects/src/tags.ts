import { changeObject } from "./change-object.ts";
import type { ObjectStoreContext } from "./context.ts";
import { objectWithoutKey } from "./get-object.ts";
import { checkTags } from "./names.ts";

type Tags = Readonly<Record<string, string>>;

/** Of the object, or of one version of it. */
export async function objectTags(context: ObjectStoreContext, bucket: string, key: string, versionId?: string): Promise<Tags> {
  const object = await objectWithoutKey(context, { bucket, key, precondition: {}, versionId });
  return object.attributes.tags;
}

export async function setObjectTags(
  context: ObjectStoreContext,
  bucket: string,
  key: string,
  tags: Tags,
  versionId?: string,
): Promise<void> {
  checkTags("object", tags);
  await changeObject(context, {
    bucket,
    key,
    versionId,
    what: "tags were",
    event: Object.keys(tags).length === 0 ? "ObjectTagging:Delete" : "ObjectTagging:Put",
    change: (object) => ({ ...object, attributes: { ...object.attributes, tags } }),
  });
}
