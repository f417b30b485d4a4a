// What the service and its RabbitMQ workers share: a connection that comes back, and a publisher that knows what arrived.
export {
  ensureQueue,
  ensureTopicExchange,
  isRefusedDemand,
  onChannel,
  refuseStream,
  UnfitTopology,
} from "./declare.js";
export { BrokerLink, type BrokerLinkOptions, type BrokerLog, type ConnectBroker } from "./link.js";
export { type Message, type Published, Publisher, type PublisherOptions } from "./publisher.js";
