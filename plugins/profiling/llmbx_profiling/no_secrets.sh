# usage: no-secrets.sh COMMAND…     starts COMMAND without any secret in its environment
# A profile stores the environment of every process on its machine, also of those that it does not look at.
for llmbx_name in $(env | sed -n 's/^\([A-Za-z_][A-Za-z0-9_]*\)=.*/\1/p'); do
  case _$(printf %s "$llmbx_name" | tr '[:lower:]' '[:upper:]')_ in
  *_TOKEN_* | *_KEY_* | *_APIKEY_* | *_SECRET_* | *_PASSWORD_* | *_PASSWD_* | *_CREDENTIAL_* | *_CREDENTIALS_* | \
    *_TOKENS_ | *_KEYS_ | *_APIKEYS_ | *_SECRETS_ | *_PASSWORDS_ | *_PASSWDS_) unset "$llmbx_name" ;;
  esac
done
unset llmbx_name
exec "$@"
