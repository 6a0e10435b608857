# SPDX-License-Identifier: Apache-2.0
"""A stand-in for the worker: a request is a function."""


class DiffusionWorker:
    def execute_model(self, request, config=None):
        return request()

    def execute_model_batch(self, requests):
        return [self.execute_model(request) for request in requests]
