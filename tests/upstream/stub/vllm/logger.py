# SPDX-License-Identifier: Apache-2.0
import logging


def init_logger(name):
    logger = logging.getLogger(name)
    for level in ("debug", "info", "warning"):
        setattr(logger, f"{level}_once", getattr(logger, level))
    return logger
