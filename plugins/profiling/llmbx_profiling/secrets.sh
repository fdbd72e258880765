# usage: secrets.sh hide COMMAND…       starts COMMAND without any secret in its environment
#        secrets.sh restore COMMAND…    starts COMMAND with the secrets that were hidden further out
# A profile stores the environment of the profiler and of the program as it starts; descriptor 8 goes around both.
llmbx_what=$1
shift
if [ "$llmbx_what" = hide ]; then
  llmbx_hidden=
  for llmbx_name in $(env | sed -n 's/^\([A-Za-z_][A-Za-z0-9_]*\)=.*/\1/p'); do
    case _$(printf %s "$llmbx_name" | tr '[:lower:]' '[:upper:]')_ in
    *_TOKEN_* | *_KEY_* | *_APIKEY_* | *_SECRET_* | *_PASSWORD_* | *_PASSWD_* | *_CREDENTIAL_* | *_CREDENTIALS_* | \
      *_TOKENS_ | *_KEYS_ | *_APIKEYS_ | *_SECRETS_ | *_PASSWORDS_ | *_PASSWDS_) ;;
    *) continue ;;
    esac
    eval "[ -n \"\${$llmbx_name+set}\" ]" || continue # a line inside another variable's value
    eval "llmbx_value=\$$llmbx_name"
    llmbx_quoted=$(printf '%s\n' "$llmbx_value" | sed "s/'/'\\\\''/g")
    llmbx_hidden="$llmbx_hidden
export $llmbx_name='$llmbx_quoted'"
    unset "$llmbx_name"
  done
  unset llmbx_value llmbx_quoted
  exec 8<< END
$llmbx_hidden
END
elif { llmbx_hidden=$(cat <&8); } 2> /dev/null; then
  eval "$llmbx_hidden"
  exec 8<&-
else
  echo "llmbx: the profiler closed descriptor 8: the program starts without its secrets" >&2
fi
unset llmbx_hidden llmbx_name llmbx_what
exec "$@"
