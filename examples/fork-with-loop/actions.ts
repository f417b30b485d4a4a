// What the media service takes and gives, as contracts. The two actions that leave a file behind have one that removes it.
import { defineAction } from "@saga-orchestrator/define";
import { Type } from "typebox";

const Asset = Type.Object({ asset: Type.String() });
const File = Type.Object({ file: Type.String() });
const Nothing = Type.Object({});

export const media = {
  ingest: defineAction({ service: "media", name: "ingest", compensable: true, input: Asset, output: Nothing }),
  remove: defineAction({ service: "media", name: "remove", input: Asset, output: Nothing }),
  checkEncoding: defineAction({
    ...{ service: "media", name: "check_encoding" },
    input: Type.Object({ asset: Type.String(), round: Type.Integer() }),
    output: Type.Object({ state: Type.String() }),
  }),
  makeThumbnail: defineAction({
    ...{ service: "media", name: "make_thumbnail", compensable: true },
    ...{ input: Asset, output: File },
  }),
  removeThumbnail: defineAction({ service: "media", name: "remove_thumbnail", input: File, output: Nothing }),
  publish: defineAction({
    ...{ service: "media", name: "publish" },
    input: Type.Object({ asset: Type.String(), thumbnail: Type.String() }),
    output: Type.Object({ url: Type.String() }),
  }),
};
