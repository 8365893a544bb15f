"""Shapes of credentials as data: the words that a line has at least, for a quick check, and a regex.

A group of the regex stays visible; the rest of a match is the credential. The shapes of issued tokens are those that
their issuers document for scanners.
"""

from __future__ import annotations

from collections.abc import Sequence

_END = r"(?=[\s'\",;&)\]}\\]|$)"
_NO_VALUE = (
    r"(?!(?i:none|null|nil|true|false|yes|no|un(?:set|defined)|empty|missing|required|optional|redacted|hidden|str|string)"
    rf"{_END}|\*\*\*|\.\.\.|\$[{{(\w]|%[s(]|<)"
)
_NO_NUMBER = rf"(?![\d.,]+[a-z%]{{0,3}}{_END})"
"""`token: 128` counts tokens, `per token=0.2534s` is a time."""
_NO_PATH = r"(?![~.]?/)"
_DIGIT = r"(?=[^\s'\",;&]*\d)"
_CALL = r"(?:[A-Za-z_][\w.]{0,40}\(\s{0,4}(?=[bru]?['\"]))?"
_SIGN = rf"(?:\\{{0,4}}['\"])?\]?\s*[:=]>?\s*(?:!{{1,2}}[\w/:.-]{{1,40}}\s+)?{_CALL}[bru]?(\\{{0,4}}['\"])?"
"""Between a name and its value, which may be wrapped: `token=SecretStr('x')`, `token: !!str x`."""
_FLAG_SIGN = r"(?:\s+|=|['\"],?\s*)(\\{0,4}['\"])?(?!-)"
"""Between a flag and its value, also in a list of arguments: `--key value`, `--key=value`, `'--key', 'value'`."""
_SPECIAL = r"(?:pad|[eb]os|unk|sep|cls|mask|image|audio|video|stop|start|end|next|first|last|max|min|num|per|special)"
_KEY = (
    r"(?:api|access|auth|private|account|secret|signing|encryption|master|license|subscription|service|wandb|hf)"
    r"[._-]?key"
)
_ACCESS = (
    r"(?:hf|hub|access|auth|api|bearer|refresh|id|session|csrf|xsrf|oauth2?|bot|app|sas|security|github|gh|gitlab|"
    r"huggingface|wandb|slack|upload|personal|deploy|user|client|admin|vault|registry|identity|jwt)[_-]?token"
)
_LOGIN = (
    r"(?:pass(?:word|wd|phrase|code)|secret|credential)"
    r"(?![\w-]{0,24}(?:path|file|dir|name|type|count|length|manager|policy)s?\b)[\w-]{0,24}"
)


def _value(least: int) -> str:
    """Return a regex of a value of at least so many characters: up to the closing quote if it is quoted (group 2)."""
    return rf"(?(2)(?:(?!\2)[^\n]){{{least},8000}}|(?:[^\s'\",;&\\]|\\(?!['\"nrt])){{{least},8000}})"


_APART_SIGN = r"(?:\s*(?:\.{3,}|->|\||│)\s*|(?:\s{2,}|\t)(?=[^\s'\",;&]*\d))(['\"])?"
"""Between a name and its value in lists of settings and in tables: `api_key ...... x`, `| api_key | x |`."""
_PASSWORD_WORDS = ("password", "passwd", "passphrase", "passcode", "secret", "credential")
_KEY_WORDS = (
    "api_key",
    "apikey",
    "api-key",
    "access_key",
    "secret_key",
    "wandb_key",
    "hf_token",
    "access_token",
    "auth_token",
)
_QUERY = (
    r"[\w.-]{0,40}(?:signature|token|secret|password|passwd|api_?key|access_?key|credential)|sig|key|pwd|auth|passkey"
)
_QUERY_WORDS = ("signature=", "token=", "secret", "password", "passwd", "key=", "credential", "sig=", "pwd=", "auth=")

WORD_RULES: Sequence[tuple[tuple[str, ...], str]] = (
    (_PASSWORD_WORDS, rf"({_LOGIN}{_SIGN}){_NO_VALUE}{_value(3)}"),
    (
        (*_PASSWORD_WORDS, *(f"{name}{sign}" for name in ("key", "keys", "token", "tokens") for sign in ":=")),
        rf"((?:{_KEY}|{_ACCESS}|{_LOGIN})s?(?:\\{{0,4}}['\"])?\s*[:=]\s*[\[(](?=\s*\\{{0,4}}['\"]))[^\])\n]{{6,8000}}",
    ),
    (
        ("pass:", "pass="),
        r"(\bpass['\"]?\s*[:=]\s*['\"]?)(?=[^\s'\"]{0,80}\d)(?-i:(?=[^\s'\"]{0,80}[a-z])(?=[^\s'\"]{0,80}[A-Z]))[^\s'\",;&]{8,}",
    ),
    (("pwd:", "pwd="), rf"((?<![a-z])(?:\w{{0,40}}_)?pwd{_SIGN}){_NO_VALUE}{_NO_PATH}{_value(3)}"),
    (
        ("authorization:", "authorization="),
        rf"(authorization{_SIGN}(?:(?:bearer|basic|token|digest|negotiate|apikey)\s+)?){_NO_VALUE}{_NO_NUMBER}{_value(6)}",
    ),
    (("key:", "key=", "keyid:", "keyid=", "key_id:", "key_id="), rf"({_KEY}(?:_?id)?{_SIGN}){_NO_VALUE}{_value(6)}"),
    (("token:", "token="), rf"({_ACCESS}{_SIGN}){_NO_VALUE}{_NO_NUMBER}{_value(6)}"),
    (
        ("token:", "token="),
        rf"((?<![\w-])(?![\w-]{{0,40}}{_SPECIAL}[_-]token)[\w-]{{0,40}}token{_SIGN})"
        rf"{_NO_VALUE}{_NO_NUMBER}(?:{_DIGIT}|(?=[^\s'\",;&]{{20}})){_value(6)}",
    ),
    (
        (*(f"_{word}{sign}" for word in ("key", "token", "pat", "pass", "auth") for sign in ":="),),
        rf"(\b(?-i:[A-Z][A-Z0-9_]{{0,40}}_(?:KEY|TOKEN|PAT|PASS|AUTH)){_SIGN})"
        rf"{_NO_VALUE}{_NO_NUMBER}{_NO_PATH}(?!\[){_value(6)}",
    ),
    (("-key:", "-key=", "-token:", "-token="), rf"(\bx-[\w-]{{0,40}}(?:key|token){_SIGN}){_NO_VALUE}{_value(6)}"),
    (
        ("cookie",),
        r"(\b(?:set-)?cookie(?:\\{0,4}['\"])?\s*[:=]\s*(\\{0,4}['\"])?)(?=[^\s=;'\"]{1,80}=)(?:[^'\"\n\\]|(?<==)\"[^\"\n]*+\"){6,8000}",
    ),
    (("cookies",), r"(\bcookies['\"]?\s*[:=]\s*\{)[^}\n]{6,8000}"),
    (("bearer",), r"(\bbearer\s+)(?=[\w.~+/-]*\d)[\w.~+/-]{12,}=*"),
    (("curl",), r"(\s(?:-u|--(?:proxy-)?user)[\s=]*['\"]?[^\s:'\"]{1,200}:)[^\s'\"]+"),
    (("wandblogin",), r"(\bwandb\s+login\s(?:\s*--?[\w-]{1,40}(?:=\S+)?\s){0,4}\s*['\"]?)[\w-]{16,}"),
    (("sshpass",), r"(\bsshpass\s+-p\s*['\"]?)(?!-)[^\s'\"]+"),
    (("dockerlogin",), r"(\s(?-i:-p)\s*['\"]?)[^\s'\"]+"),
    (("redis-cli",), r"(\s(?-i:-a)\s+['\"]?)[^\s'\"]+"),
    (("mysql-", "mysqldump-", "mysqladmin-"), r"(\s(?-i:-p)['\"]?)(?!assword)[^\s'\"]+"),
    (_QUERY_WORDS, rf"([?&](?:{_QUERY})=)[^\s'\"&#;]{{6,}}"),
    (
        (*_PASSWORD_WORDS, *(f"{name}{sign}" for name in ("key", "token") for sign in ("...", "->", "|")), *_KEY_WORDS),
        rf"((?:{_KEY}|{_ACCESS}|{_LOGIN}){_APART_SIGN}){_NO_VALUE}{_NO_NUMBER}{_NO_PATH}{_value(6)}",
    ),
    (
        (*_PASSWORD_WORDS, "key,", "token,", "authorization,"),
        rf"(['\"](?:\w{{0,40}}(?:{_KEY}|{_ACCESS}|{_LOGIN})|authorization)['\"]\s*,\s*b?(['\"])(?:bearer\s+)?)"
        rf"{_NO_VALUE}{_value(6)}",
    ),
    (
        tuple(
            f"{name}{sign}" for name in ("password", "secret", "token", "key", "pass") for sign in (",value:", "value=")
        ),
        rf"((?:password|secret|token|key|pass)['\"]?\s{{0,4}}(?:,\s{{0,4}})?['\"]?value['\"]?\s{{0,4}}[:=]\s{{0,4}}"
        rf"(['\"])){_NO_VALUE}{_value(3)}",
    ),
    (
        ("token]", "key]"),
        rf"(\[['\"]?\w{{0,40}}(?:{_KEY}|token)['\"]?\]\s*=\s*(['\"])?){_NO_VALUE}{_NO_NUMBER}{_value(6)}",
    ),
    (("auth:",), r"(['\"]auth['\"]\s*:\s*['\"])(?=[\w+/]*[\dA-Z])[\w+/]{12,}={0,2}(?=['\"])"),
    (
        ("auth(", "auth=(", ".login("),
        r"((?:auth\(|\bauth=\(|\.login\()\s*['\"][^'\"\n]{0,200}['\"]\s*,\s*['\"])[^'\"\n]+",
    ),
    (
        ("password", "passphrase"),
        r"(\b(?:password|passphrase)\s+['\"]?)(?=[^\s'\"]*\d)(?=[^\s'\"]*[a-z])(?![\w.]*[(/])[^\s'\",;&()]{8,}",
    ),
    (("passwordfor", "passphrasefor"), rf"(\bpass(?:word|phrase)\s+for\s+\S{{1,80}}:\s*){_NO_VALUE}[^\s'\"]{{6,}}"),
    (
        ("password>", "secret>", "token>", "key>"),
        r"(<\w{0,40}(?:password|secret|token|(?:api|access|secret|private)_?key)>)[^<\s]{3,}(?=</)",
    ),
    (("<cookie",), r"(<Cookie\s+[^\s=]{1,80}=)[^\s>]{6,}"),
    (("token<<<", "sudo-s<<<"), r"((?:token|sudo\s+-S)\s*<<<\s*['\"]?)[^\s'\"$]{6,}"),
    (
        ("|sudo-s", "--password-stdin"),
        r"(\becho\s+(?:-n\s+)?['\"]?)[^\s'\"$]{1,400}(?=['\"]?\s*\|(?:\s*sudo\s+-S|[^\n|]{1,200}--password-stdin))",
    ),
    (
        ("configset", "configureset", "setapi-key", "setapi_key", "authtoken"),
        rf"((?:\bset\s+\S{{0,80}}(?:secret|token|key|password)\S{{0,20}}|auth[_-]?token)\s+['\"]?){_NO_VALUE}{_NO_PATH}{_DIGIT}"
        r"[^\s'\"]{16,}",
    ),
    (
        ("ssh-keygen", "zip-", "htpasswd-", "smbclient", "lftp-u", "vaultlogin", "rabbitmqctl", "-passpass:"),
        r"((?-i:\bssh-keygen\s[^\n]{0,200}?-[NP]|\bzip\s[^\n]{0,80}?-P|\bhtpasswd\s+-\w{0,8}b\w{0,8}\s+\S{1,200}\s+\S{1,80}"
        r"|\brabbitmqctl\s+(?:add_user|change_password)\s+\S{1,80}|\bvault\s+login)\s+['\"]?"
        r"|(?-i:\bsmbclient\s[^\n]{0,200}?-U\s*\S{1,80}?%|\blftp\s+-u\s+[^\s,]{1,80},|\s-pass(?:in|out)?\s+pass:))(?!-)[^\s'\"]{3,}",
    ),
    (
        ("username:",),
        r"(['\"]username['\"]\s*:\s*['\"][^'\"\n]{0,80}['\"]\s*,\s*['\"]key['\"]\s*:\s*['\"])[0-9a-f]{32}\b",
    ),
    (("account.key.",), r"(\baccount\.key\.[\w.-]{1,200}\s*=\s*)[\w+/]{16,}=*"),
    (
        tuple(f"{name}%3d" for name in ("signature", "token", "secret", "password", "passwd", "key", "credential")),
        rf"((?:{_QUERY})%3D)[^\s'\"&#;%]{{6,}}",
    ),
    (("requirepass", "masterauth"), r"(\b(?:requirepass|masterauth)\s+['\"]?)[^\s'\"]{3,}"),
    (("sshpass=",), r"(\bSSHPASS=['\"]?)[^\s'\"]+"),
    (("ldapsearch", "ldapmodify", "ldapadd", "ldapwhoami"), r"(\s(?-i:-w)\s*['\"]?)[^\s'\"]+"),
    (("]auth",), r"((?-i:\] \"AUTH\")(?:\s+\"[^\"\n]{0,80}\")?\s+\")[^\"\n]{3,}(?=\")"),
    (
        ("authplain", "authlogin", "authxoauth2"),
        r"(\bauth\s+(?:plain|login|xoauth2)\s+)(?=[\w+/]{0,200}\d)[\w+/]{8,}=*",
    ),
    (("azlogin",), r"(\s(?-i:-p)\s*['\"]?)[^\s'\"]+"),
    (
        ("identifiedby", "identifiedwith"),
        r"(\bidentified\s+(?:with\s+\S{1,80}\s+)?by\s+(?:password\s+)?['\"])[^'\"\n]+",
    ),
    ((":thin:",), r"(:thin:[^\s/@]{1,80}/)[^\s@]{1,200}(?=@)"),
    (("key-data:", "key_data:"), r"(\bkey[_-]data['\"]?\s*:\s*['\"]?)[\w+/=]{16,}"),
    (("signature=", "signature:"), r"(\bsignature\s*[:=]\s*['\"]?)(?=[\w+/%-]{0,200}\d)[\w+/%-]{32,}=*"),
    (("wandb",), r"(\bkeys?\b[\s:='\"(]{1,6})[0-9a-f]{40}\b"),
    (
        ("password:", "passphrase:"),
        r"((?:^\s*(?:-\s+)?|\b(?:enter|type|retype|repeat|confirm)\s+(?:(?:your|the|new|old|key)\s+){0,2})"
        r"[\w.-]{0,40}(?:password|passphrase):\s+)(?=\S{1,200}(?:\s\S{1,200}){1,8}\s*$)(?![^\n]{0,400}[.:!?\[<$*])"
        r"[^\n]{6,400}",
    ),
    (("machine",), r"(\bmachine\s+\S{1,200}\s+login\s+\S{1,200}\s+password\s+)\S+"),
)
"""Words that a line has in lower case and without blanks and quotes; a regex, in which case does not matter."""

_USER = r"[^\s/:@'\"\[]{0,200}"
_NO_PORT = r"(?!\d{1,5}(?:[/?#,;)\]]|$))"
"""A password may hold a slash, where a URL may not: what follows `://HOST:PORT/` is a path, with or without `@`."""
_FLAG = r"--(?!-)[\w-]{0,40}?"
SHAPE_RULES: Sequence[tuple[str, str]] = (
    ("--", rf"(?i)({_FLAG}(?:passw(?:or)?d|passphrase|secret|pwd){_FLAG_SIGN}){_NO_VALUE}{_value(3)}"),
    ("--", rf"(?i)({_FLAG}(?:{_KEY}|token){_FLAG_SIGN}){_NO_VALUE}{_NO_NUMBER}{_value(6)}"),
    ("--", rf"(?i)({_FLAG}key{_FLAG_SIGN}){_NO_PATH}{_DIGIT}{_NO_NUMBER}[\w+/=-]{{8,}}"),
    *(
        (sign, rf"(?i)(\b(?:token|password|api[ _-]?key)\s+is:?\s+['\"]?){_DIGIT}[^\s'\",;&]{{6,}}")
        for sign in ("oken is", "assword is", "ey is")
    ),
    ("://", r"(?<!\w)(\w[\w+.-]{0,31}://[^\s/:@'\"]{0,200}:)[^\s/'\"]+(?=@[\w\[./-])"),
    (
        "://",
        rf"(?<!\w)(\w[\w+.-]{{0,31}}://{_USER}:){_NO_PORT}[^\s/@'\"]{{0,200}}/(?:(?!://)[^\s'\"]){{0,200}}(?=@[\w\[.-])",
    ),
    ("://", r"(?<!\w)(\w[\w+.-]{0,31}://)[^\s/:@'\"]{16,}(?=@)"),
    *(
        (
            sign,
            rf"(\b{sign}\s*[A-Z0-9_]{{0,40}}(?:SECRET|TOKEN|PASSWORD|PASSWD|PASS|KEY)\s+['\"]?){_NO_VALUE}{_NO_NUMBER}{_NO_PATH}[^\s'\"]{{6,}}",
        )
        for sign in ("ENV ", "ARG ", "setenv ")
    ),
    ("hooks.slack.com/", r"(hooks\.slack\.com/[a-z]{1,20}/)[\w/-]{16,}"),
    ("/api/webhooks/", r"(/api/webhooks/\d{1,30}/)[\w-]{16,}"),
    ("webhook.office.com/", r"(webhook\.office\.com/)[^\s'\"]{16,}"),
    ("/bot/v2/hook/", r"(/bot/v2/hook/)[\w-]{16,}"),
    ("hooks.zapier.com/", r"(hooks\.zapier\.com/hooks/catch/)[\w/]{8,}"),
    ("api.telegram.org/bot", r"(api\.telegram\.org/bot)\d{6,12}:[\w-]{30,}"),
    (":AA", r"\b()\d{8,10}:AA[\w-]{32,34}\b"),
    ("PRIVATE KEY", r"(-----BEGIN [A-Z ]{0,30}PRIVATE KEY[A-Z ]{0,20}-----)(?!\s*$)[^\n]+?(?=-----END|['\"]|$)"),
    ("sk-", r"\b(sk-)[\w-]{16,}"),
    ("sk_", r"\b(sk_)[\w-]{16,}"),
    ("rk_live_", r"\b(rk_live_)\w{16,}"),
    *((sign, rf"\b({sign})[A-Za-z0-9_]{{16,}}") for sign in ("gho_", "ghp_", "ghr_", "ghs_", "ghu_", "github_pat_")),
    *((sign, rf"\b({sign})[\w-]{{16,}}") for sign in ("glpat-", "gldt-", "glrt-", "glcbt-", "glptt-", "glagent-")),
    ("xox", r"\b(xox[a-z]-)[\w-]{16,}"),
    ("xapp-", r"\b(xapp-)[\w-]{16,}"),
    *(
        (sign, rf"(\b[A-Z][A-Z0-9_]{{0,40}}{sign}['\"]?)(?=[^\s'\"]{{0,200}}\d)(?![\d.]+\b)[\w+/=-]{{20,}}")
        for sign in ("_KEY ", "_TOKEN ", "_SECRET ", "_PASSWORD ")
    ),
    *((sign, rf"(\b{sign}[A-Z0-9]{{16}}\W{{1,5}})[\w+/]{{40}}(?![\w+/])") for sign in ("AKIA", "ASIA")),
    ("GOOG1", r"\b(GOOG1)[A-Z0-9]{20,}"),
    ("AIza", r"\b(AIza)[\w-]{16,}"),
    ("ya29.", r"\b(ya29\.)[\w-]{16,}"),
    ("GOCSPX-", r"\b(GOCSPX-)[\w-]{16,}"),
    ("hf_", r"\b(hf_(?:oauth_)?)[A-Za-z0-9]{16,}\b"),
    ("ATBB", r"\b(ATBB)[A-Za-z0-9]{24,}"),
    ("LTAI", r"\b(LTAI)[A-Za-z0-9]{12,}\b"),
    ("Q~", r"(?<![\w.~-])()[\w.~-]{3}\dQ~[\w.~-]{31,34}"),
    ("api_org_", r"\b(api_org_)[A-Za-z0-9]{16,}"),
    ("npm_", r"\b(npm_)[A-Za-z0-9]{16,}\b"),
    ("pypi-", r"\b(pypi-)[\w-]{32,}"),
    ("AKIA", r"\b(AKIA)[A-Z0-9]{16,}\b"),
    ("ASIA", r"\b(ASIA)[A-Z0-9]{16,}\b"),
    ("wandb_", r"\b(wandb_)(?=\w*\d)\w{16,}"),
    ("local-", r"\b(local-)[0-9a-f]{40}\b"),
    ("nvapi-", r"\b(nvapi-)[\w-]{16,}"),
    ("r8_", r"\b(r8_)[A-Za-z0-9]{24,}"),
    ("gsk_", r"\b(gsk_)[A-Za-z0-9]{24,}"),
    ("xai-", r"\b(xai-)[A-Za-z0-9]{24,}"),
    ("pplx-", r"\b(pplx-)[A-Za-z0-9]{24,}"),
    ("fw_", r"\b(fw_)(?=\w*\d)[A-Za-z0-9]{20,}"),
    ("tgp_v1_", r"\b(tgp_v1_)[\w-]{16,}"),
    ("rpa_", r"\b(rpa_)[A-Z0-9]{24,}"),
    ("lsv2_", r"\b(lsv2_[ps][tk]_)\w{16,}"),
    ("pcsk_", r"\b(pcsk_)\w{16,}"),
    ("dckr_", r"\b(dckr_[a-z]{3}_)[\w-]{16,}"),
    *((sign, rf"\b({sign})[0-9a-f]{{16,}}") for sign in ("dop_v1_", "doo_v1_", "dor_v1_")),
    ("hvs.", r"\b(hvs\.)[\w-]{16,}"),
    ("hvb.", r"\b(hvb\.)[\w-]{16,}"),
    ("SG.", r"\b(SG\.)[\w-]{16,}\.[\w-]{16,}"),
    ("dapi", r"\b(dapi)[0-9a-f]{32}\b"),
    ("ATATT3", r"\b(ATATT3)[\w=-]{16,}"),
    ("glsa_", r"\b(glsa_)\w{16,}"),
    ("glc_", r"\b(glc_)[\w+/=]{24,}"),
    ("tskey-", r"\b(tskey-[a-z]{1,20}-)[\w-]{12,}"),
    ("sntry", r"\b(sntry[su]_)[\w+/=]{16,}"),
    ("pul-", r"\b(pul-)[0-9a-f]{40}\b"),
    ("NRAK-", r"\b(NRAK-)[A-Z0-9]{16,}"),
    ("lin_api_", r"\b(lin_api_)\w{16,}"),
    ("shpat_", r"\b(shpat_)[0-9a-f]{16,}"),
    ("MUNGE:", r"(\bMUNGE:)[\w+/]{16,}={0,2}"),
    ("AGE-SECRET-KEY-", r"(AGE-SECRET-KEY-1)[A-Z0-9]{16,}"),
    ("key-", r"\b(key-)[0-9a-f]{32}\b"),
    ("eyJ", r"(?<![\w-])(eyJ)[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?"),
)
"""A literal that every match contains, as it is; a regex."""

COMMON = {"--": r"--(?!-)[\w-]{0,40}(?i:token|key|secret|passw|passp|pwd)", "://": r"://[^\s/@]*(?:@|/[^\s@]{0,200}@)"}
"""Literals that many ordinary lines contain, each with a regex that fewer of them match."""
