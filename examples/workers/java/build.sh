#!/bin/sh
# Compiles the worker with Debian's packages: build.sh FOLDER. FOLDER/worker then starts it.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1/messages" "$1/classes"
folder=$(cd "$1" && pwd)
protoc -I "$here/../../../src/dispatch" --java_out="$folder/messages" worker.proto

jars=$folder/classes
for name in grpc-api grpc-context grpc-core grpc-netty grpc-protobuf grpc-protobuf-lite grpc-stub gson guava protobuf netty-buffer netty-codec netty-codec-http netty-codec-http2 netty-common netty-handler netty-resolver netty-transport netty-transport-native-unix-common perfmark-api; do
  jars=$jars:/usr/share/java/$name.jar
done
javac -nowarn -proc:none -d "$folder/classes" -cp "$jars" "$here"/*.java "$folder"/messages/saga/worker/v1/*.java

# exec: a signal reaches the worker itself.
printf '#!/bin/sh\nexec java -XX:TieredStopAtLevel=1 -cp "%s" ConformanceWorker\n' "$jars" >"$folder/worker"
chmod +x "$folder/worker"
