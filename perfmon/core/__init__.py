"""Values and helpers that know nothing of the domain above them: model, text, units, statistics, configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmon._faces import lazy_face

if TYPE_CHECKING:
    from .config import (
        AUTO,
        BUILTIN,
        FIGURES,
        WATCHED,
        WHOLE,
        YEARLESS_S,
        Config,
        Detail,
        NotifyConfig,
        load_config,
        moment,
        user_folder,
    )
    from .errors import ConnectError, DataFileError, ExitCode, InputError, MissingExtraError, PerfmonError, UsageError
    from .intervals import (
        CHECKPOINT,
        DOWNTIME,
        EVALUATION,
        PRODUCTIVE,
        REST,
        RESTORE,
        STARTUP,
        UNACCOUNTED,
        WASTED,
        LostInterval,
        Shares,
        Window,
        attribute_time,
        intersection,
        length,
        union,
        without,
    )
    from .model import (
        ALL_LEGS,
        BEGINS_WITH,
        BETWEEN_RUNS_S,
        CLOSE,
        DAYTIME,
        DETAIL,
        EPOCH,
        FAILURE,
        HEAD,
        J_DONE_STAMP,
        J_LEGS,
        J_LINES,
        J_OP,
        J_PATH,
        J_QUEUE,
        J_RPC,
        J_SEND_STAMP,
        J_SERVER_LAST_STAMP,
        J_SERVER_PATH,
        J_SERVER_RPC,
        J_SERVER_STAMP,
        J_SIZE,
        J_TIMES,
        J_URL,
        J_WALL,
        LEG,
        LEGS,
        LOCAL,
        MARK,
        MARKS,
        OPEN,
        PROGRESS,
        ROW,
        RUN,
        SAME,
        SAMPLE,
        SILENCE,
        SPAN,
        STEP,
        TABLE,
        TAIL,
        TOLD_PROBLEMS,
        UNDER_WAY,
        UPTIME,
        YEARLESS,
        Block,
        Fields,
        Gap,
        Joined,
        LegStamp,
        Notice,
        NoticeKind,
        Observation,
        Progress,
        Record,
        Ref,
        Severity,
        Span,
        Stamp,
        TimeBase,
        Update,
        says_only_that,
    )
    from .redaction import masked
    from .stats import (
        CELLS,
        FEWEST_BLOCKS,
        RESAMPLES,
        Interval,
        Resampled,
        Summary,
        mean_change,
        median,
        percentile,
        quantile_change,
        resample,
        slope,
        summarise,
    )
    from .text import ESCAPES, evidence_text, may_contain_secret, plain, without_secrets
    from .toml_tables import Table, read_toml, with_user_files
    from .units import (
        STEPS,
        convert,
        counted,
        format_bytes,
        format_seconds,
        format_share,
        format_value,
        metric_unit,
        parse_duration,
        parse_number,
        plural_of,
        read_value,
    )
    from .user_state import load_state, remember, replacing

__getattr__ = lazy_face(
    __name__,
    {
        "config": (
            "AUTO,BUILTIN,Config,Detail,FIGURES,NotifyConfig,WATCHED,WHOLE,YEARLESS_S,load_config,moment,user_folder"
        ),
        "errors": "ConnectError,DataFileError,ExitCode,InputError,MissingExtraError,PerfmonError,UsageError",
        "intervals": (
            "CHECKPOINT,LostInterval,DOWNTIME,EVALUATION,PRODUCTIVE,REST,RESTORE,STARTUP,Shares,UNACCOUNTED,WASTED,"
            "Window,intersection,length,attribute_time,union,without"
        ),
        "model": (
            "ALL_LEGS,BEGINS_WITH,BETWEEN_RUNS_S,Block,CLOSE,DAYTIME,DETAIL,EPOCH,FAILURE,Fields,Gap,HEAD,"
            "J_DONE_STAMP,J_LEGS,J_LINES,J_OP,J_PATH,J_QUEUE,J_RPC,J_SEND_STAMP,J_SERVER_LAST_STAMP,J_SERVER_PATH,"
            "J_SERVER_RPC,J_SERVER_STAMP,J_SIZE,J_TIMES,J_URL,J_WALL,Joined,LEG,LEGS,LOCAL,LegStamp,MARK,MARKS,"
            "Notice,NoticeKind,OPEN,Observation,PROGRESS,Progress,ROW,RUN,Record,Ref,SAME,SAMPLE,SILENCE,SPAN,"
            "STEP,Severity,Span,Stamp,TABLE,TAIL,TOLD_PROBLEMS,TimeBase,UNDER_WAY,UPTIME,Update,YEARLESS,says_only_that"
        ),
        "redaction": "masked",
        "stats": (
            "CELLS,FEWEST_BLOCKS,Interval,RESAMPLES,Resampled,Summary,mean_change,median,percentile,"
            "quantile_change,resample,slope,summarise"
        ),
        "text": "ESCAPES,evidence_text,plain,may_contain_secret,without_secrets",
        "toml_tables": "Table,read_toml,with_user_files",
        "units": (
            "STEPS,convert,counted,format_bytes,format_seconds,format_share,format_value,metric_unit,"
            "parse_duration,parse_number,plural_of,read_value"
        ),
        "user_state": "load_state,remember,replacing",
    },
)
