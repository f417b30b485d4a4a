// A video is taken in; its encoding is polled in a loop while a thumbnail is made; then it is published.
import { cel, saga } from "@saga-orchestrator/define";
import { Type } from "typebox";
import { media } from "./actions.js";

export const publishVideo = saga("publish-video", {
  name: "Publish a video",
  // The schema of the original checks less than the types say.
  input: Type.Unsafe<{ asset: string }>({ type: "object", required: ["asset"] }),
})
  .action("ingest", media.ingest, {
    inputs: ({ inputs }) => ({ asset: inputs.asset }),
    undo: [media.remove, ({ inputs }) => ({ asset: inputs.asset })],
  })
  .parallel("fork", {
    encode: (branch) =>
      branch.while(
        "encode",
        (round) =>
          round.action("check", media.checkEncoding, {
            inputs: ({ inputs, iteration }) => ({ asset: inputs.asset, round: iteration }),
          }),
        {
          condition: ({ iteration, steps }) => cel`${iteration} == 0 || ${steps.check.state} != 'done'`,
          maxIterations: 5,
          delayMs: 20,
        },
      ),
    thumbnail: (branch) =>
      branch.action("thumbnail", media.makeThumbnail, {
        inputs: ({ inputs }) => ({ asset: inputs.asset }),
        undo: [media.removeThumbnail, ({ output }) => ({ file: output.file })],
      }),
  })
  .join("join", { mode: "all" })
  .action("publish", media.publish, {
    inputs: ({ inputs, steps }) => ({ asset: inputs.asset, thumbnail: steps.join.thumbnail.file }),
  })
  .end(({ steps }) => ({ url: steps.publish.url, rounds: cel<number>`size(${steps.join.encode})` }), { id: "done" });
