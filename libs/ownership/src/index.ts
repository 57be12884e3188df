export { place, type Member, type Placement, type PlacementOptions, type Ranks } from "./placement.ts";
export { servingMember, type View } from "./view.ts";
export { Owners, type OwnersOptions } from "./owners.ts";
export { askedToRelease, tenureDecision, type Opinions, type TenureDecision, type TenureFacts, type TenureWaits } from "./hand-over.ts";
export { unitOfTenure, type Ended, type Tenure, type Unit } from "./unit.ts";
export { Units, type HandOverPeers, type UnitsOptions, type UnitTimes } from "./units.ts";
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
export { stepList, type ListChangeOptions } from "./list-changes.ts";
export { fixedLists, MemberLists, type MemberListsOptions } from "./member-lists.ts";
export { LIST_READ_EVERY_MS } from "./limits.ts";
