"""The forms of secrets that are recognized without their value: one row a form.

Sources: "service": what the service's own documentation shows of its tokens; "gitleaks NAME" and "detect-secrets NAME":
the prefixes, alphabets and lengths in that rule of the project, as facts. Expressions are this project's own. They are
less strict than the services about lengths, which grow over the years, and are plain enough for Python 3.10.
"""

from __future__ import annotations

from typing import NamedTuple


class Shape(NamedTuple):
    """A form of secrets: with which of its texts a match begins (none: with any), and its expression."""

    name: str
    anchors: tuple[str, ...]
    pattern: str
    source: str


LONGEST_WORD = 20
"""A token has at least so many letters, digits, `_` and `-` in a row: only such places are looked at."""

END = r"(?![A-Za-z0-9_-])"
DIGIT, CAPITAL = r"(?=[A-Za-z_-]{0,80}[0-9])", r"(?=[a-z0-9_-]{0,80}[A-Z])"
CAPITAL_OR_DIGIT = r"(?=[a-z_-]{0,80}[A-Z0-9])"

TOKENS = (
    # Models and their hubs
    Shape("Hugging Face", ("hf_",), rf"hf_{CAPITAL_OR_DIGIT}[A-Za-z0-9]{{20,}}", "gitleaks huggingface-access-token"),
    Shape("Hugging Face organization", ("api_org_",), rf"api_org_{CAPITAL_OR_DIGIT}[A-Za-z0-9]{{30,}}",
          "gitleaks huggingface-organization-api-token"),
    Shape("NGC", ("nvapi-",), r"nvapi-[A-Za-z0-9_-]{20,}", "service"),
    # An NGC key without a prefix is 84 characters of base64: "TOKEN:UUID".
    Shape("NGC before 2024", (), rf"(?:{DIGIT}{CAPITAL}[A-Za-z0-9]{{84}}){END}", "service"),
    Shape("OpenAI, Anthropic, OpenRouter, DeepSeek", ("sk-",), rf"sk-{DIGIT}[A-Za-z0-9_-]{{20,}}",
          "gitleaks openai-api-key, anthropic-api-key"),
    Shape("W&B", ("wandb_v",), r"wandb_v[0-9]_[A-Za-z0-9_-]{30,}", "service"),
    Shape("Groq", ("gsk_",), rf"gsk_{CAPITAL_OR_DIGIT}[A-Za-z0-9]{{30,}}", "service"),
    Shape("xAI", ("xai-",), rf"xai-{DIGIT}[A-Za-z0-9]{{40,}}", "service"),
    Shape("LangSmith", ("lsv2_", "ls__"), r"(?:lsv2_[a-z]{2}_|ls__)[0-9a-f]{32}[0-9a-f_]*", "service"),
    Shape("Replicate", ("r8_",), rf"r8_{CAPITAL_OR_DIGIT}[A-Za-z0-9]{{30,}}", "service"),
    Shape("Perplexity", ("pplx-",), rf"pplx-{CAPITAL_OR_DIGIT}[A-Za-z0-9]{{30,}}", "gitleaks perplexity-api-key"),
    Shape("Pinecone", ("pcsk_",), r"pcsk_[A-Za-z0-9]{4,8}_[A-Za-z0-9]{50,}", "service"),
    Shape("Cerebras", ("csk-",), rf"csk-{DIGIT}[A-Za-z0-9]{{30,}}", "service"),
    Shape("Databricks", ("dapi", "dose", "dkea"), rf"d(?:api|ose|kea)[0-9a-f]{{32}}(?:-[0-9])?{END}",
          "gitleaks databricks-api-token"),
    # Source code and packages
    Shape("GitHub", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"gh[pousr]_[A-Za-z0-9]{30,}", "gitleaks github-pat"),
    Shape("GitHub, of limited rights", ("github_pat_",), r"github_pat_[A-Za-z0-9_]{30,}",
          "gitleaks github-fine-grained-pat"),
    Shape("GitLab", ("gl",), r"gl(?:pat|rt|rtr|dt|ptt|ft|imt|agent|oas|soat|ffct|cbt)-[A-Za-z0-9_.-]{20,}",
          "gitleaks gitlab-pat, gitlab-runner-authentication-token, …"),
    Shape("GitLab runner registration", ("GR1348941",), r"GR1348941[A-Za-z0-9_-]{20,}", "gitleaks gitlab-rrt"),
    Shape("Bitbucket and Atlassian", ("ATATT3", "ATCTT3", "ATBB"),
          r"AT(?:[AC]TT3[A-Za-z0-9_=-]{40,}|BB[A-Za-z0-9]{24,})",
          "gitleaks atlassian-api-token"),
    Shape("npm", ("npm_",), rf"npm_{CAPITAL_OR_DIGIT}[A-Za-z0-9]{{30,}}", "gitleaks npm-access-token"),
    Shape("PyPI", ("pypi-",), r"pypi-[A-Za-z0-9_-]{50,}", "gitleaks pypi-upload-token"),
    Shape("RubyGems", ("rubygems_",), r"rubygems_[0-9a-f]{48}", "gitleaks rubygems-api-token"),
    Shape("Docker Hub", ("dckr_",), r"dckr_(?:pat|oat)_[A-Za-z0-9_-]{20,}", "service"),
    Shape("Artifactory", ("AKCp", "cmVmd"), rf"(?:AKCp[A-Za-z0-9]{{60,}}|cmVmd[A-Za-z0-9]{{59}}{END})",
          "gitleaks artifactory-api-key, artifactory-reference-token"),
    Shape("Sourcegraph", ("sgp_",), r"sgp_(?:[A-Za-z0-9]{5,16}_)?[0-9a-f]{40}", "gitleaks sourcegraph-access-token"),
    # Clouds
    Shape("AWS", ("AKIA", "ASIA", "ABIA", "ACCA"), rf"A(?:[KS]IA|BIA|CCA)[0-9A-Z]{{16}}{END}",
          "gitleaks aws-access-token"),
    Shape("AWS Bedrock", ("ABSK", "bedrock-api-key-"), r"(?:ABSK|bedrock-api-key-)[A-Za-z0-9+/]{60,}={0,2}",
          "gitleaks aws-amazon-bedrock-api-key-long-lived"),
    Shape("Google", ("AIza",), r"AIza[A-Za-z0-9_-]{35}", "gitleaks gcp-api-key"),
    Shape("Google OAuth client", ("GOCSPX-",), r"GOCSPX-[A-Za-z0-9_-]{24,}", "service"),
    Shape("Alibaba", ("LTAI",), rf"LTAI{DIGIT}[A-Za-z0-9]{{16,24}}{END}", "gitleaks alibaba-access-key-id"),
    Shape("DigitalOcean", ("dop_v1_", "doo_v1_", "dor_v1_"), r"do[por]_v1_[0-9a-f]{40,}", "gitleaks digitalocean-pat"),
    Shape("Heroku", ("HRKU-",), r"HRKU-[A-Za-z0-9_-]{36,}", "gitleaks heroku-api-key-v2"),
    Shape("Fly", ("fo1_", "fm1", "fm2_"), r"(?:fo1_[A-Za-z0-9_-]{40,}|fm[12][ar]?_[A-Za-z0-9+/]{80,}={0,3})",
          "gitleaks flyio-access-token"),
    Shape("PlanetScale", ("pscale_",), r"pscale_(?:tkn|oauth|pw)_[A-Za-z0-9_=.-]{30,}",
          "gitleaks planetscale-password"),
    Shape("Pulumi", ("pul-",), rf"pul-[0-9a-f]{{40}}{END}", "gitleaks pulumi-api-token"),
    Shape("Tailscale", ("tskey-",), r"tskey-[a-z]{2,10}-[A-Za-z0-9-]{20,}", "service"),
    Shape("Prefect", ("pnu_", "pnb_"), rf"pn[ub]_[A-Za-z0-9]{{36}}{END}", "gitleaks prefect-api-token"),
    # Monitoring
    Shape("Grafana", ("glsa_", "glc_"), r"gl(?:sa|c)_[A-Za-z0-9+/_]{30,}={0,3}",
          "gitleaks grafana-service-account-token, grafana-cloud-api-token"),
    Shape("New Relic", ("NRAK-", "NRII-", "NRJS-", "NRAA-"), r"NR(?:AK|II|JS|AA)-[A-Za-z0-9-]{19,}",
          "gitleaks new-relic-user-api-key"),
    Shape("Sentry", ("sntrys_", "sntryu_"), r"sntry[su]_[A-Za-z0-9+/=_]{40,}", "gitleaks sentry-org-token"),
    # Vaults and keys
    Shape("1Password", ("ops_eyJ",), r"ops_eyJ[A-Za-z0-9+/]{100,}={0,3}", "gitleaks 1password-service-account-token"),
    Shape("age", ("AGE-SECRET-KEY-1",), r"AGE-SECRET-KEY-1[A-Z0-9]{50,}", "gitleaks age-secret-key"),
    # Messages, mail and payment
    Shape("Slack", ("xox", "xapp-", "xwfp-"), r"(?:xox[a-z](?:\.xox[a-z])?-|xapp-|xwfp-)[A-Za-z0-9-]{10,}",
          "gitleaks slack-bot-token, …"),
    Shape("Twilio", ("SK",), rf"SK[0-9a-f]{{32}}{END}", "gitleaks twilio-api-key"),
    Shape("Brevo", ("xkeysib-",), r"xkeysib-[0-9a-f]{40,}-[A-Za-z0-9]{16}", "gitleaks sendinblue-api-token"),
    Shape("Mailchimp", (), rf"[0-9a-f]{{32}}-us[0-9]{{1,2}}{END}", "detect-secrets mailchimp"),
    Shape("Stripe", ("rk_", "sk_", "whsec_"),
          r"(?:[rs]k_(?:live|test|prod)_|whsec_)[A-Za-z0-9+/]{16,}", "gitleaks stripe-access-token"),
    Shape("Square", ("sq0",), r"sq0[a-z]{3}-[A-Za-z0-9_-]{22,}", "gitleaks square-access-token"),
    Shape("Shopify", ("shpat_", "shpca_", "shppa_", "shpss_"), r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}",
          "gitleaks shopify-access-token, …"),
    # Work
    Shape("Linear", ("lin_api_",), r"lin_(?:api|oauth)_[A-Za-z0-9]{30,}", "gitleaks linear-api-key"),
    Shape("Notion", ("ntn_",), r"ntn_[0-9]{8,}[A-Za-z0-9]{30,}", "gitleaks notion-api-token"),
    Shape("Postman", ("PMAK-",), r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}", "gitleaks postman-api-token"),
    Shape("Figma", ("figd_",), r"figd_[A-Za-z0-9_-]{36,}", "service"),
)  # fmt: skip
"""Tokens that begin a word, with a prefix of their own."""

DOTTED = (
    Shape("Cloudflare origin", ("v1.0-",), r"v1\.0-[0-9a-f]{24}-[0-9a-f]{100,}", "gitleaks cloudflare-origin-ca-key"),
    Shape("Vault", ("hvs.", "hvb.", "hvr."), r"hv[sbr]\.[A-Za-z0-9_-]{20,}", "gitleaks vault-service-token"),
    Shape("Vault before 1.10", ("s.", "b.", "r."), rf"[sbr]\.{DIGIT}{CAPITAL}[A-Za-z0-9]{{24}}(?![A-Za-z0-9_.(-])",
          "gitleaks vault-service-token"),
    Shape("HashiCorp Cloud", (".atlasv1.",), r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9=_-]{40,}",
          "gitleaks hashicorp-tf-api-token"),
    Shape("Doppler", ("dp.",), r"dp\.(?:pt|st|ct|sa|scim|audit)\.(?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,44}",
          "gitleaks doppler-api-token"),
    Shape("Dynatrace", ("dt0c01.", "dt0s"), r"dt0[a-z][0-9]{2}\.[A-Za-z0-9]{8,24}\.[A-Za-z0-9]{60,}",
          "gitleaks dynatrace-api-token"),
    Shape("Discord", (), rf"[MNO]{DIGIT}[A-Za-z0-9_-]{{23,27}}\.[A-Za-z0-9_-]{{6}}\.[A-Za-z0-9_-]{{27,40}}",
          "detect-secrets discord"),
    Shape("Telegram", (":AA",), r"(?:bot)?[0-9]{8,11}:AA[A-Za-z0-9_-]{32,34}", "gitleaks telegram-bot-api-token"),
    Shape("SendGrid", ("SG.",), r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}", "gitleaks sendgrid-api-token"),
    Shape("Google access", ("ya29.",), r"ya29\.[A-Za-z0-9_-]{20,}", "service"),
    Shape("Airtable", ("pat",), r"pat[A-Za-z0-9]{14}\.[0-9a-f]{64}", "gitleaks airtable-personnal-access-token"),
    Shape("OpenShift", ("sha256~",), r"sha256~[A-Za-z0-9_-]{43}", "gitleaks openshift-user-token"),
    Shape("Azure client", ("Q~",),
          r"[A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}", "gitleaks azure-ad-client-secret"),
)  # fmt: skip
"""Tokens whose long word comes after a short one and `.`, `:` or `~`."""

PHRASES = (
    Shape("JSON Web Token", ("eyj",),
          r"(?:(?<![a-z0-9_-]eyj)|(?<=\\[nrt]eyj)|(?<=[0-9]meyj)|(?<=%[0-9a-f]{2}eyj))"
          r"[a-z0-9_-]{8,2000}\.[a-z0-9_-]{8,4000}\.[a-z0-9_-]{8,2000}", "gitleaks jwt"),
    Shape("Bearer", ("bearer ",), r"[ \t]{0,9}(?=[a-z._~+/=-]{0,80}[0-9])([a-z0-9._~+/=-]{16,})", "RFC 6750"),
    Shape("hooks of Slack, Discord and Teams", ("hook",),
          r"s?(?:\.slack\.com/(?:services|workflows|triggers)/|s/[0-9]{15,20}/|b2/)([a-z0-9@/_-]{24,})",
          "gitleaks slack-webhook-url, microsoft-teams-webhook"),
    Shape("signed link", ("sig",),
          r"(?:nature)?(?:=|%3d)(?=[a-z%_/+-]{0,80}[0-9])([a-z0-9%_/+-]{20,}={0,2})", "service"),
    Shape("curl", ("curl ",), r"[^\n]{0,300}?(?:-u|--user)[ =]?[\"']?[a-z0-9_.@-]{1,99}:([^\s\"']{3,200})",
          "gitleaks curl-auth-user"),
    Shape("login to a registry", ("login ",),
          r"(?<=docker login |podman login )[^\n]{0,200}?(?<= )-p[ =]?[\"']?(?![\"'$<*/-])([^\s\"']{4,200})",
          "service"),
    Shape("login of W&B", ("login ",), r"(?<=wandb login )(?:--relogin )?([0-9a-f]{40})(?![0-9a-f])", "service"),
    Shape("login to a host", ("login ",), r"\s{0,9}\S{1,99}\s{1,9}password\s{1,9}(\"[^\"\n]{1,500}\"|[^\s\"'`]{1,500})",
          "netrc(5)"),
)  # fmt: skip
"""Secrets that their surroundings tell. The expression is for what follows the anchor, in small letters."""

FIELDS = (
    "p(?:ass|wd)",
    "secret",
    "cred",
    "auth",
    r"k(?:ey(?<=[a-z0-9_-]key)|en(?!s_|s/|iz|s?[\"']{0,1}[:=] ?[0-9.]{1,7}[,\s}])|ie)",
    "_(?:pat|jwt)",
)
"""Parts of the names of fields that may hold a secret: `secret_fields` decides. They are fast to search for."""
