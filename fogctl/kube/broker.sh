# The broker of a testbed, inside the image: `format` gives its log an identity, `run` becomes the broker.
# The password is read from a file and only ever written to a file of ours: it is in no argument list.
set -eu
umask 077
password=$(cat "$FOG_SECRETS/kafka-password")
scratch=${TMPDIR:-/tmp}
settings=$scratch/server.properties
plain=org.apache.kafka.common.security.plain.PlainLoginModule
scram=org.apache.kafka.common.security.scram.ScramLoginModule
login="required username=\"$KAFKA_USER\" password=\"$password\""
{
    cat "$FOG_SETTINGS/server.properties"
    echo "listeners=DATA://$NODE_ADDRESS:$DATA_PORT,CONTROLLER://localhost:$CONTROLLER_PORT"
    echo "advertised.listeners=DATA://$NODE_ADDRESS:$DATA_PORT"
    echo "listener.name.data.scram-sha-512.sasl.jaas.config=$scram $login;"
    echo "listener.name.controller.plain.sasl.jaas.config=$plain $login user_$KAFKA_USER=\"$password\";"
} >"$settings"
case "$1" in
format)
    if [ -e "$LOG_FOLDER/meta.properties" ]; then exit 0; fi
    {
        echo "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dorg.slf4j.simpleLogger.defaultLogLevel=error"
        echo "-cp $CLASS_PATH kafka.tools.StorageTool format -t $CLUSTER_ID -c $settings"
        echo "--add-scram SCRAM-SHA-512=[name=$KAFKA_USER,password=$password]"
    } >"$scratch/format.args"
    exec java "@$scratch/format.args"
    ;;
run)
    # shellcheck disable=SC2086
    exec java $JAVA_OPTIONS -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -cp "$CLASS_PATH" kafka.Kafka "$settings"
    ;;
esac
