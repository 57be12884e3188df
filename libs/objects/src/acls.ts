import type { ObjectStore } from "./api.ts";
import { changeObject } from "./change-object.ts";
import type { ObjectStoreContext } from "./context.ts";
import { objectWithoutKey } from "./get-object.ts";
import { checkAcl } from "./names.ts";
import type { ObjectAcl, StoredObject } from "./rows.ts";

/** Of the object, or of one version of it. Undefined: its owner's alone. */
export async function objectAcl(
  context: ObjectStoreContext,
  { judge, ...request }: Parameters<ObjectStore["objectAcl"]>[0],
): Promise<ObjectAcl | undefined> {
  return (await objectWithoutKey(context, { ...request, precondition: { judge } })).acl;
}

/** Of the object, or of one version of it: made of the very row that it replaces, so a right that was taken away meanwhile is gone. */
export async function setObjectAcl(context: ObjectStoreContext, request: Parameters<ObjectStore["setObjectAcl"]>[0]): Promise<void> {
  const change = (object: StoredObject): StoredObject => {
    const { acl: _, ...rest } = object;
    const acl = request.change(object);
    checkAcl(acl);
    return acl === undefined ? rest : { ...rest, acl };
  };
  await changeObject(context, { ...request, what: "ACL was", changes: "acl", event: "ObjectAcl:Put", change });
}
