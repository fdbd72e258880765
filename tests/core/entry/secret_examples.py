"""Forms of secrets, one a row, and lines that only look like secrets. All secrets are made up and put together here.

`TOKENS` are known by themselves, so they are tried in every place. `BESIDE` are known by what stands beside them: `{}`
in the text is the secret. Sources: "gitleaks" and "detect-secrets" name the rule with this form, "service" what the
documentation of the service shows, and others the standard or the program.
"""

from __future__ import annotations

import base64
from typing import NamedTuple


class Example(NamedTuple):
    """A form: its name, where it is described, the secret, and a text with `{}` for the secret."""

    name: str
    source: str
    secret: str
    text: str = "{}"


def some(length: int, letters: str = "Fake0Token1") -> str:
    """Letters that are no one's secret."""
    return (letters * length)[:length]


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


HEX = "fa4e0"
CAPITALS = "FAKE0TOKEN1"
SMALL = "fake0token1"
DIGITS = "1234567890"
JWT = ".".join((encoded('{"alg":"HS256"}').rstrip("="), encoded('{"sub":"fake"}').rstrip("="), some(43)))
PAIR = encoded("bob:fake-password")

TOKENS = (
    Example("1Password service account", "gitleaks 1password-service-account-token", "ops_" + "eyJ" + some(250)),
    Example("age", "gitleaks age-secret-key", "AGE-SECRET-" + "KEY-1" + some(58, CAPITALS)),
    Example("Airtable", "gitleaks airtable-personnal-access-token", "pat" + some(14) + "." + some(64, HEX)),
    Example("Alibaba", "gitleaks alibaba-access-key-id", "LT" + "AI" + some(20)),
    Example("Anthropic", "gitleaks anthropic-api-key", "sk-" + "ant-api03-" + some(93) + "AA"),
    Example("Anthropic admin", "gitleaks anthropic-admin-api-key", "sk-" + "ant-admin01-" + some(93) + "AA"),
    Example("Artifactory key", "gitleaks artifactory-api-key", "AK" + "Cp" + some(69)),
    Example("Artifactory reference", "gitleaks artifactory-reference-token", "cm" + "Vmd" + some(59)),
    Example("Atlassian", "gitleaks atlassian-api-token", "ATA" + "TT3" + some(186)),
    Example("AWS access key", "gitleaks aws-access-token", "AK" + "IA" + some(16, "FAKE2TOKEN3")),
    Example("AWS temporary", "gitleaks aws-access-token", "AS" + "IA" + some(16, "FAKE2TOKEN3")),
    Example("AWS Bedrock", "gitleaks aws-amazon-bedrock-api-key-long-lived", "AB" + "SK" + some(120)),
    Example("Azure client", "gitleaks azure-ad-client-secret", "fak" + "8Q~" + some(34)),
    Example("Brevo", "gitleaks sendinblue-api-token", "xkey" + "sib-" + some(64, HEX) + "-" + some(16)),
    Example("Cerebras", "service", "cs" + "k-" + some(48, SMALL)),
    Example("Cloudflare origin", "gitleaks cloudflare-origin-ca-key", "v1.0-" + some(24, HEX) + "-" + some(146, HEX)),
    Example("Databricks", "gitleaks databricks-api-token", "da" + "pi" + some(32, HEX)),
    Example("Databricks, second", "gitleaks databricks-api-token", "da" + "pi" + some(32, HEX) + "-2"),
    Example("DeepSeek", "service", "s" + "k-" + some(32, HEX)),
    Example("DigitalOcean", "gitleaks digitalocean-pat", "dop" + "_v1_" + some(64, HEX)),
    Example("DigitalOcean OAuth", "gitleaks digitalocean-access-token", "doo" + "_v1_" + some(64, HEX)),
    Example("Discord bot", "detect-secrets discord", "MT" + some(22) + "." + some(6) + "." + some(27)),
    Example("Discord hook", "service", "https://discord.com/api/web" + "hooks/" + some(18, DIGITS) + "/" + some(68)),
    Example("Docker Hub", "service", "dckr" + "_pat_" + some(27)),
    Example("Docker Hub organization", "service", "dckr" + "_oat_" + some(32)),
    Example("Doppler", "gitleaks doppler-api-token", "dp" + ".pt." + some(43)),
    Example("Dynatrace", "gitleaks dynatrace-api-token",
          "dt0" + "c01." + some(24, CAPITALS) + "." + some(64, CAPITALS)),
    Example("Figma", "service", "fig" + "d_" + some(40)),
    Example("Fly", "gitleaks flyio-access-token", "fo" + "1_" + some(43)),
    Example("GitHub", "gitleaks github-pat", "gh" + "p_" + some(36)),
    Example("GitHub OAuth", "gitleaks github-oauth", "gh" + "o_" + some(36)),
    Example("GitHub user", "gitleaks github-app-token", "gh" + "u_" + some(36)),
    Example("GitHub server", "gitleaks github-app-token", "gh" + "s_" + some(36)),
    Example("GitHub refresh", "gitleaks github-refresh-token", "gh" + "r_" + some(76)),
    Example("GitHub, of limited rights", "gitleaks github-fine-grained-pat",
          "github" + "_pat_" + some(22) + "_" + some(59)),
    Example("GitLab", "gitleaks gitlab-pat", "gl" + "pat-" + some(20)),
    Example("GitLab, routable", "gitleaks gitlab-pat-routable", "gl" + "pat-" + some(40) + ".01." + some(9, SMALL)),
    Example("GitLab runner", "gitleaks gitlab-runner-authentication-token", "gl" + "rt-" + some(20)),
    Example("GitLab deployment", "gitleaks gitlab-deploy-token", "gl" + "dt-" + some(20)),
    Example("GitLab trigger", "gitleaks gitlab-ptt", "gl" + "ptt-" + some(40, HEX)),
    Example("GitLab job", "gitleaks gitlab-cicd-job-token", "gl" + "cbt-" + "64_" + some(20)),
    Example("GitLab runner registration", "gitleaks gitlab-rrt", "GR1348" + "941" + some(20)),
    Example("Google", "gitleaks gcp-api-key", "AI" + "za" + some(35)),
    Example("Google access", "service", "ya" + "29." + some(60)),
    Example("Google OAuth client", "service", "GOC" + "SPX-" + some(28)),
    Example("Grafana service account", "gitleaks grafana-service-account-token",
          "gl" + "sa_" + some(32) + "_" + some(8, HEX)),
    Example("Grafana Cloud", "gitleaks grafana-cloud-api-token", "gl" + "c_" + some(80)),
    Example("Groq", "service", "gs" + "k_" + some(52)),
    Example("Terraform Cloud", "gitleaks hashicorp-tf-api-token", some(14) + ".atlas" + "v1." + some(67)),
    Example("Heroku", "gitleaks heroku-api-key-v2", "HR" + "KU-AA" + some(58)),
    Example("Hugging Face", "gitleaks huggingface-access-token", "h" + "f_" + some(34)),
    Example("Hugging Face organization", "gitleaks huggingface-organization-api-token", "api" + "_org_" + some(34)),
    Example("JSON Web Token", "gitleaks jwt", JWT),
    Example("LangSmith", "service", "ls" + "v2_pt_" + some(32, HEX) + "_" + some(10, HEX)),
    Example("LangSmith service", "service", "ls" + "v2_sk_" + some(32, HEX) + "_" + some(10, HEX)),
    Example("Linear", "gitleaks linear-api-key", "lin" + "_api_" + some(40)),
    Example("Mailchimp", "detect-secrets mailchimp", some(32, HEX) + "-us" + "12"),
    Example("New Relic user", "gitleaks new-relic-user-api-key", "NR" + "AK-" + some(27, CAPITALS)),
    Example("New Relic insert", "gitleaks new-relic-insert-key", "NR" + "II-" + some(32, SMALL)),
    Example("NGC", "service", "nv" + "api-" + some(64)),
    Example("NGC before 2024", "service", encoded(some(26, SMALL) + ":" + "fa4e0000-0000-4000-8000-00000000fa4e")),
    Example("Notion", "gitleaks notion-api-token", "nt" + "n_" + some(11, DIGITS) + some(35)),
    Example("npm", "gitleaks npm-access-token", "np" + "m_" + some(36)),
    Example("OpenAI", "gitleaks openai-api-key", "s" + "k-" + some(48)),
    Example("OpenAI project", "gitleaks openai-api-key", "s" + "k-proj-" + some(74) + "T3BlbkFJ" + some(74)),
    Example("OpenAI service account", "gitleaks openai-api-key", "s" + "k-svcacct-" + some(74) + "T3BlbkFJ" + some(74)),
    Example("OpenRouter", "service", "s" + "k-or-v1-" + some(64, HEX)),
    Example("OpenShift", "gitleaks openshift-user-token", "sha256" + "~" + some(43)),
    Example("Perplexity", "gitleaks perplexity-api-key", "pp" + "lx-" + some(48)),
    Example("Pinecone", "service", "pc" + "sk_" + some(6) + "_" + some(63)),
    Example("PlanetScale", "gitleaks planetscale-password", "psc" + "ale_pw_" + some(43)),
    Example("Postman", "gitleaks postman-api-token", "PM" + "AK-" + some(24, HEX) + "-" + some(34, HEX)),
    Example("Prefect", "gitleaks prefect-api-token", "pn" + "u_" + some(36)),
    Example("Pulumi", "gitleaks pulumi-api-token", "pu" + "l-" + some(40, HEX)),
    Example("PyPI", "gitleaks pypi-upload-token", "py" + "pi-AgEIcHlwaS5vcmc" + some(80)),
    Example("Replicate", "service", "r" + "8_" + some(37)),
    Example("RubyGems", "gitleaks rubygems-api-token", "ruby" + "gems_" + some(48, HEX)),
    Example("SendGrid", "gitleaks sendgrid-api-token", "S" + "G." + some(22) + "." + some(43)),
    Example("Sentry", "gitleaks sentry-user-token", "sntr" + "yu_" + some(64, HEX)),
    Example("Shopify", "gitleaks shopify-access-token", "shp" + "at_" + some(32, HEX)),
    Example("Shopify custom", "gitleaks shopify-custom-access-token", "shp" + "ca_" + some(32, HEX)),
    Example("Shopify private", "gitleaks shopify-private-app-access-token", "shp" + "pa_" + some(32, HEX)),
    Example("Shopify shared", "gitleaks shopify-shared-secret", "shp" + "ss_" + some(32, HEX)),
    Example("Slack bot", "gitleaks slack-bot-token",
          "xo" + "xb-" + some(12, DIGITS) + "-" + some(12, DIGITS) + "-" + some(24)),
    Example("Slack user", "gitleaks slack-user-token",
          "xo" + "xp-" + "-".join([some(12, DIGITS)] * 3) + "-" + some(32, HEX)),
    Example("Slack app", "gitleaks slack-app-token",
          "xa" + "pp-1-" + some(11, CAPITALS) + "-" + some(13, DIGITS) + "-" + some(64, HEX)),
    Example("Slack refresh", "gitleaks slack-config-refresh-token", "xo" + "xe-1-" + some(146, CAPITALS)),
    Example("Slack hook", "gitleaks slack-webhook-url",
            "https://hooks.sl" + "ack.com/services/T" + some(10, CAPITALS)
            + "/B" + some(10, CAPITALS) + "/" + some(24)),
    Example("Sourcegraph", "gitleaks sourcegraph-access-token", "sg" + "p_" + some(16, HEX) + "_" + some(40, HEX)),
    Example("Square", "gitleaks square-access-token", "sq0" + "atp-" + some(22)),
    Example("Stripe", "gitleaks stripe-access-token", "s" + "k_live_" + some(24)),
    Example("Stripe, of limited rights", "gitleaks stripe-access-token", "r" + "k_test_" + some(24)),
    Example("Stripe hook", "service", "wh" + "sec_" + some(32)),
    Example("Tailscale", "service", "ts" + "key-auth-" + some(12) + "-" + some(32)),
    Example("Teams hook", "gitleaks microsoft-teams-webhook",
            "https://fake.webhook.off" + "ice.com/webhookb2/" + "@".join(["fa4e0000-0000-4000-8000-00000000fa4e"] * 2)
            + "/IncomingWebhook/" + some(32, HEX) + "/fa4e0000-0000-4000-8000-00000000fa4e"),
    Example("Telegram", "gitleaks telegram-bot-api-token", some(10, DIGITS) + ":" + "AA" + some(33)),
    Example("Twilio", "gitleaks twilio-api-key", "S" + "K" + some(32, HEX)),
    Example("Vault", "gitleaks vault-service-token", "hv" + "s." + some(95)),
    Example("Vault batch", "gitleaks vault-batch-token", "hv" + "b." + some(140)),
    Example("Vault before 1.10", "gitleaks vault-service-token", "s" + "." + some(24)),
    Example("W&B", "service", "wandb" + "_v1_" + some(27) + "_" + some(49)),
)  # fmt: skip

PASSWORD = "fake-Passw0rd"

BESIDE = (
    Example("number as a password", "detect-secrets keyword", "12345678", "DB_PASSWORD={}"),
    Example("number as a password, in JSON", "detect-secrets keyword", "12345678", '"db_password": {}, "x": 1'),
    Example("short number as a password", "detect-secrets keyword", "4711", "REDIS_PASSWORD={}"),
    Example("number as a secret", "detect-secrets keyword", "8472619304", "CLIENT_SECRET: {}"),
    Example("password", "detect-secrets keyword", PASSWORD, "password={}"),
    Example("password in YAML", "detect-secrets keyword", PASSWORD, "  password: {}"),
    Example("password of letters", "detect-secrets keyword", "correcthorse", "  password: {}"),
    Example("password in JSON", "detect-secrets keyword", "pass, w\\\"ord} 1", '{"password": "{}", "user": "bob"}'),
    Example("password in JSON in JSON", "detect-secrets keyword",
          PASSWORD, '"{\\"password\\": \\"{}\\", \\"user\\": 1}"'),
    Example("password in a dictionary", "detect-secrets keyword", "it isn't s0", """{'db_password': "{}", 'x': 1}"""),
    Example("password in a call", "detect-secrets keyword", PASSWORD, "connect(host='db', password='{}', port=5432)"),
    Example("password in a connection", "service", PASSWORD, "Server=db;Uid=bob;Pwd={};Database=x"),
    Example("password in XML", "detect-secrets keyword", PASSWORD, "<password>{}</password>"),
    Example("PGPASSWORD", "libpq", "hunter2", "+ PGPASSWORD={} psql -h db"),
    Example("passphrase", "detect-secrets keyword", PASSWORD, "ssh_passphrase = {}"),
    Example("DB_PASS", "detect-secrets keyword", PASSWORD, "export DB_PASS={}"),
    Example("password as an option", "detect-secrets keyword", "hunter2", "run --db-password {} --steps 10"),
    Example("key as an option", "gitleaks generic-api-key", some(32), "run --api-key {} --steps 10"),
    Example("key as an option with =", "gitleaks generic-api-key", some(32), "run --api-key={} --steps 10"),
    Example("key in a list of arguments", "gitleaks generic-api-key",
          some(32), "['train.py', '--api-key', '{}', '--steps', '10']"),
    Example("key in a JSON list of arguments", "gitleaks generic-api-key",
          some(32), '["train.py", "--api_key", "{}", "--steps"]'),
    Example("token in pairs", "gitleaks generic-api-key", some(32), "[('HF_TOKEN', '{}'), ('A', 'b')]"),
    Example("Bearer", "RFC 6750", some(24, SMALL), "Authorization: Bearer {}"),
    Example("Bearer in a dictionary", "RFC 6750", some(24, SMALL), "{'Authorization': 'Bearer {}', 'Accept': '*/*'}"),
    Example("Bearer, short", "RFC 6750", "s3cr3t", "< authorization: bearer {}"),
    Example("Bearer in a list", "RFC 6750", "s3cr3t", 'header: {"Authorization":["Bearer {}"]}'),
    Example("Bearer as Go prints it", "RFC 6750", "s3cr3t", "map[Accept:[*/*] Authorization:[Bearer {}]]"),
    Example("password in a table", "service", "hunter2", "│ db_password │ {} │ text │"),
    Example("key in a link's parameter", "RFC 3986", some(32), "https://x.example/?next=%2F%3Fapi_key%3D{}"),
    Example("Basic", "RFC 7617", PAIR, "Authorization: Basic {}"),
    Example("Basic in JSON", "RFC 7617", PAIR, '{"headers": {"authorization": "Basic {}"}}'),
    Example("token in a header", "service", some(40, HEX), "Authorization: token {}"),
    Example("proxy", "RFC 7617", PAIR, "Proxy-Authorization: Basic {}"),
    Example("key in a header", "service", some(32), "X-API-Key: {}"),
    Example("GitLab header", "service", some(24), "Private-Token: {}"),
    Example("cookie", "RFC 6265", "session=" + some(24) + "; theme=dark", "Cookie: {}"),
    Example("auth of a registry", "service", PAIR, '{"auths": {"r.example": {"auth": "{}"}}}'),
    Example("auth of a registry, in YAML", "service", PAIR, "    auth: {}"),
    Example("identity of a registry", "service", some(40), '"identitytoken": "{}"'),
    Example("npmrc", "npm", some(36, HEX), "//registry.example/:_authToken={}"),
    Example("Azure storage", "detect-secrets azure_storage_key", some(86) + "==",
            "DefaultEndpointsProtocol=https;AccountName=x;AccountKey={};EndpointSuffix=core.example"),
    Example("Azure shared access", "service",
          some(43) + "=", "Endpoint=sb://x/;SharedAccessKeyName=n;SharedAccessKey={}"),
    Example("Azure signature", "service",
          some(43) + "%3D", "https://x.blob.example/c/f?sv=2024-01-01&se=2026&sig={}&sp=r"),
    Example("AWS secret", "gitleaks generic-api-key", "/" + some(19) + "+" + some(19), "AWS_SECRET_ACCESS_KEY={}"),
    Example("AWS secret in a file", "gitleaks generic-api-key", some(40), "aws_secret_access_key = {}"),
    Example("AWS session", "gitleaks generic-api-key", some(200) + "==", "aws_session_token = {}"),
    Example("AWS signature", "service", some(64, HEX), "https://b.s3.example/k?X-Amz-Expires=60&X-Amz-Signature={}"),
    Example("AWS token in a link", "service", some(200), "https://b.s3.example/k?X-Amz-Security-Token={}&X-Amz-Date=1"),
    Example("Google signature", "service", some(128, HEX), "https://g.example/k?X-Goog-Signature={}"),
    Example("Google service account", "service", "MIIE" + some(60) + "\\n" + some(64) + "\\n" + some(22) + "==",
            '"private_key": "-----BEGIN '
            + 'PRIVATE KEY-----\\n{}\\n-----END ' + 'PRIVATE KEY-----\\n", "client_id": "1"'),
    Example("W&B before 2025", "service", some(40, HEX), "WANDB_API_KEY={}"),
    Example("W&B login", "service", some(40, HEX), "$ wandb login {}"),
    Example("netrc", "netrc(5)", some(40, HEX), "machine api.example\n  login user\n  password {}\n"),
    Example("Kubernetes", "service", some(400) + "==", "    client-key-data: {}"),
    Example("Kubernetes token", "gitleaks kubernetes-secret-yaml", JWT, "    token: {}"),
    Example("Kubernetes variable", "service", PASSWORD, "        - name: DB_PASSWORD\n          value: {}"),
    Example("Kubernetes variable in JSON", "service", PASSWORD, '[{"name": "DB_PASSWORD", "value": "{}"}]'),
    Example("Kubernetes argument", "service", some(32), "        - --api-key\n        - {}"),
    Example("ClearML", "service", some(50), 'api.credentials.secret_key = "{}"'),
    Example("Comet", "service", some(25), "COMET_API_KEY={}"),
    Example("Neptune", "service", encoded('{"api_address":"x"}'), "NEPTUNE_API_TOKEN={}"),
    Example("MLflow", "service", PASSWORD, "MLFLOW_TRACKING_PASSWORD={}"),
    Example("curl", "gitleaks curl-auth-user", PASSWORD, "curl -s -u bob:{} https://x.example/"),
    Example("sshpass", "sshpass(1)", PASSWORD, "sshpass -p {} ssh node1"),
    Example("login to a registry", "service", PASSWORD, "podman login -u bob -p {} r.example"),
    Example("user of a link", "detect-secrets basic_auth", "bob:" + PASSWORD, "index https://{}@pypi.example/simple"),
    Example("token of a link", "service", some(20), "cloning https://{}@git.example/a.git"),
    Example("database", "detect-secrets basic_auth", "ann:p@ss", "postgresql://{}@db.example:5432/x"),
    Example("message queue", "detect-secrets basic_auth", ":" + PASSWORD, "redis://{}@q.example:6379/0"),
    Example("colours", "service", PASSWORD, "\x1b[1mpassword\x1b[0m: \x1b[32m{}\x1b[0m"),
    Example("dotted list of settings", "service",
          some(40, HEX), "  wandb_api_key ................................... {}"),
    Example("capitals within a name", "service", some(32), '"clientSecret": "{}"'),
    Example("Terraform", "detect-secrets keyword", PASSWORD, 'password := "{}"'),
    Example("Ruby", "detect-secrets keyword", PASSWORD, ":password => '{}'"),
)  # fmt: skip
