export { place, type Member, type Placement, type PlacementOptions, type Ranks } from "./placement.ts";
export { dutyOf, newerView, nextView, servingMember, type Duty, type View } from "./view.ts";
export { Owners, type OwnersOptions } from "./owners.ts";
export { askedToRelease, tenureDecision, type Opinions, type Tenure, type TenureDecision } from "./hand-over.ts";
export {
  assignable,
  byPlace,
  foundingList,
  nextListStep,
  type ListChange,
  type ListedMember,
  type ListedState,
  type ListFacts,
  type ListStep,
  type RecordedList,
} from "./recorded-list.ts";
export { MemberLists, type MemberListsOptions } from "./member-lists.ts";
export { LIST_READ_EVERY_MS } from "./limits.ts";
