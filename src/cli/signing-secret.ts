// `saga signing-secret`: the secret with which calls of a service, or webhooks, are signed. It asks no service: the setting says it all.
import { readSetting } from "../config/index.js";
import { isReceiver, readSigning, SIGNING_SETTING, WEBHOOK } from "../egress/signing.js";
import type { Command } from "./command.js";
import { Failure } from "./exit.js";

export const signingSecret: Command = {
  name: "signing-secret",
  parameters: "<service>",
  summary: "Prints the secret with which calls of a service are signed",
  details: `Reads ${SIGNING_SETTING} or ${SIGNING_SETTING}_FILE, as the service does. Of two secrets, it prints the new one.
The service ${WEBHOOK} stands for the webhooks whose steps name no secret.`,
  run([service, ...rest]) {
    if (service === undefined || rest.length > 0) throw new Failure("signing-secret needs the name of one service");
    if (!isReceiver(service)) throw new Failure(`"${service}" is not the name of a service, nor ${WEBHOOK}`);
    const setting = readSetting(SIGNING_SETTING);
    if (setting === undefined) throw new Failure(`${SIGNING_SETTING} is not set`);
    const [newest] = readSigning(setting).of(service);
    if (newest === undefined) throw new Failure(`${SIGNING_SETTING} has no entry for ${service}`);
    return newest;
  },
};
