"""The routes of Kafka Connect's REST API, answered by any worker.

Requests are refused that a browser sends for another site.  `users` decides who may send the others; without users there is
no log-in."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import quote, urlsplit

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

import tidelog
from tidelog import errors
from tidelog.connect.plugins import check_all, is_source, problems_of
from tidelog.connect.rest import answers, changes
from tidelog.connect.rest.authentication import WorkerUsers
from tidelog.connect.rest.bodies import object_of
from tidelog.connect.rest.changes import RequestRefused
from tidelog.connect.rest.offsets import OffsetsApi
from tidelog.connect.rest.other_workers import ask_others
from tidelog.connect.state.connectors import PAUSED, STARTED, STOPPED, ConnectorsState
from tidelog.connect.state.store import Records
from tidelog.connect.worker import ConnectWorker
from tidelog.logs import LEVELS

NAME_CHARS_MAX = 200

Handler = Callable[[Request], Awaitable[Response]]


class ConnectApi:
    def __init__(
        self, worker: ConnectWorker, users: WorkerUsers | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        """`tls`: how the other workers are asked, if they encrypt."""
        self._worker = worker
        self._users = users
        self._tls = tls
        self._store = worker.store
        self._offsets = OffsetsApi(worker)

    def application(self) -> Starlette:
        name, task = "/connectors/{name}", "/connectors/{name}/tasks/{task:int}"
        plugin = "/connector-plugins/{plugin}"
        table: list[tuple[str, str, Handler]] = [
            ("GET", "/", self.root),
            ("GET", "/health", self.health),
            ("GET", "/connectors", self.list),
            ("POST", "/connectors", self.create),
            ("GET", name, self.describe),
            ("DELETE", name, self.delete),
            ("GET", f"{name}/config", self.config),
            ("PUT", f"{name}/config", self.put_config),
            ("PATCH", f"{name}/config", self.patch_config),
            ("GET", f"{name}/status", self.status),
            ("PUT", f"{name}/pause", self.pause),
            ("PUT", f"{name}/resume", self.resume),
            ("PUT", f"{name}/stop", self.stop),
            ("POST", f"{name}/restart", self.restart),
            ("GET", f"{name}/tasks", self.tasks),
            ("GET", f"{task}/status", self.task_status),
            ("POST", f"{task}/restart", self.restart_task),
            ("GET", f"{name}/logs", self.logs),
            ("GET", f"{name}/offsets", self._offsets.get),
            ("PATCH", f"{name}/offsets", self._offsets.alter),
            ("DELETE", f"{name}/offsets", self._offsets.reset),
            ("GET", "/connector-plugins", self.plugins),
            ("GET", f"{plugin}/config", self.plugin_config),
            ("PUT", f"{plugin}/config/validate", self.validate),
            ("GET", "/admin/loggers", self.loggers),
            ("PUT", "/admin/loggers/{logger}", self.set_logger),
        ]
        routes = [
            Route(path, _guarded(handler, self._users), methods=[method]) for method, path, handler in table
        ]
        handlers: Any = {RequestRefused: _refused, HTTPException: _not_found, errors.TidelogError: _failed}
        return Starlette(routes=routes, exception_handlers=handlers)

    async def root(self, request: Request) -> Response:
        return JSONResponse(
            {"version": tidelog.__version__, "commit": "", "kafka_cluster_id": self._store.cluster_id}
        )

    async def health(self, request: Request) -> Response:
        return JSONResponse({"status": "healthy", "message": "Worker has completed startup and is ready."})

    # Connectors

    async def list(self, request: Request) -> Response:
        names = sorted(self._store.connectors.connectors)
        expand = request.query_params.getlist("expand")
        if not expand:
            return JSONResponse(names)
        out: dict[str, Any] = {}
        for name in names:
            out[name] = {}
            if "status" in expand:
                out[name]["status"] = answers.status(self._worker, name)
            if "info" in expand:
                out[name]["info"] = answers.info(self._worker, name)
        return JSONResponse(out)

    async def create(self, request: Request) -> Response:
        body = await object_of(request)
        name, settings = body.get("name"), body.get("config")
        if not isinstance(name, str) or not isinstance(settings, dict):
            raise RequestRefused(400, 'a connector is {"name": ..., "config": {...}}')
        initial = body.get("initial_state", STARTED)
        if initial not in (STARTED, PAUSED, STOPPED, "RUNNING"):
            raise RequestRefused(400, f"initial_state cannot be {initial!r}: use RUNNING, PAUSED or STOPPED")
        checked = await self._checked(name, settings)
        initial = STARTED if initial == "RUNNING" else initial
        owners = self._store.status.owners()
        slots = self._store.options.slots
        await self._store.change(lambda state: changes.create(state, name, checked, initial, slots, owners))
        return JSONResponse(answers.info(self._worker, name), 201)

    async def _checked(self, name: str, settings: dict[str, Any]) -> dict[str, str]:
        if not name.strip() or len(name) > NAME_CHARS_MAX or any(char in name for char in "/\\\n\r\0"):
            raise RequestRefused(400, f"{name[:NAME_CHARS_MAX]!r} cannot be the name of a connector")
        texts = {key: answers.text_of(value) for key, value in settings.items() if value is not None}
        if texts.setdefault("name", name) != name:
            raise RequestRefused(
                400,
                f"Connector name configuration ({texts['name']}) doesn't match connector name in the URL ({name})",
            )
        try:
            await asyncio.to_thread(lambda: check_all(self._worker.plugins.of(texts), texts))
        except errors.InvalidConfig as problem:
            raise RequestRefused(400, str(problem)) from None
        return texts

    async def describe(self, request: Request) -> Response:
        return JSONResponse(answers.info(self._worker, request.path_params["name"]))

    async def config(self, request: Request) -> Response:
        return JSONResponse(self._entry(request).settings)

    def _entry(self, request: Request) -> Any:
        return changes.entry_of(self._store.connectors, request.path_params["name"])

    async def put_config(self, request: Request) -> Response:
        return await self._put(request.path_params["name"], await object_of(request))

    async def patch_config(self, request: Request) -> Response:
        patch = await object_of(request)
        settings = {**self._entry(request).settings, **patch}
        return await self._put(request.path_params["name"], settings)

    async def _put(self, name: str, settings: dict[str, Any]) -> Response:
        checked = await self._checked(name, settings)
        is_new = name not in self._store.connectors.connectors
        slots, owners = self._store.options.slots, self._store.status.owners()
        await self._store.change(lambda state: changes.put(state, name, checked, slots, owners))
        return JSONResponse(answers.info(self._worker, name), 201 if is_new else 200)

    async def delete(self, request: Request) -> Response:
        name = request.path_params["name"]
        tasks = len(self._entry(request).tasks)
        await self._store.change(lambda state: changes.delete(state, name))
        for key in answers.status_keys(name, tasks):
            await self._store.say_status(key, None)
        return Response(status_code=204)

    async def status(self, request: Request) -> Response:
        return JSONResponse(answers.status(self._worker, request.path_params["name"]))

    async def pause(self, request: Request) -> Response:
        return await self._target(request, PAUSED)

    async def resume(self, request: Request) -> Response:
        return await self._target(request, STARTED)

    async def stop(self, request: Request) -> Response:
        return await self._target(request, STOPPED)

    async def _target(self, request: Request, wanted: str) -> Response:
        name = request.path_params["name"]
        await self._store.change(lambda state: changes.target(state, name, wanted))
        return Response(status_code=202)

    async def restart(self, request: Request) -> Response:
        name, query = request.path_params["name"], request.query_params
        with_tasks = query.get("includeTasks", "false").lower() == "true"
        only_failed = query.get("onlyFailed", "false").lower() == "true"

        def decide(state: ConnectorsState) -> Records:
            entry = changes.entry_of(state, name)
            if only_failed:
                return changes.restart(
                    state, name, answers.failed_tasks(self._worker, entry) if with_tasks else set()
                )
            return changes.restart(state, name, None)

        await self._store.change(decide)
        if not with_tasks:
            return Response(status_code=204)
        return JSONResponse(answers.status(self._worker, name), 202)

    async def restart_task(self, request: Request) -> Response:
        name, number = request.path_params["name"], request.path_params["task"]
        await self._store.change(lambda state: changes.restart(state, name, {number}))
        return Response(status_code=204)

    async def tasks(self, request: Request) -> Response:
        entry = self._entry(request)
        shown = [
            {"id": {"connector": entry.name, "task": number}, "config": task.settings}
            for number, task in enumerate(entry.tasks)
        ]
        return JSONResponse(shown)

    async def task_status(self, request: Request) -> Response:
        tasks = answers.status(self._worker, request.path_params["name"])["tasks"]
        number = request.path_params["task"]
        if number >= len(tasks):
            raise RequestRefused(404, f"No status found for task {request.path_params['name']}-{number}")
        return JSONResponse(tasks[number])

    async def logs(self, request: Request) -> Response:
        """Tidelog's own: the last lines of the connector's tasks, of all workers."""
        name = self._entry(request).name
        lines = self._worker.logs.lines(name)
        if request.query_params.get("here") != "true":
            path = f"/connectors/{quote(name, safe='')}/logs?here=true"
            login = {key: value for key, value in request.headers.items() if key == "authorization"}
            for more in await ask_others(self._worker, path, login, self._tls):
                lines += more["lines"]
        # By their time; the lines of one worker stay in their order.
        return JSONResponse({"lines": sorted(lines, key=lambda line: line.partition(" ")[0])})

    # Plugins and loggers

    async def plugins(self, request: Request) -> Response:
        shown = []
        for name in self._worker.plugins.names():
            kind = "source" if is_source(self._worker.plugins.find(name)) else "sink"
            shown.append({"class": name, "type": kind, "version": tidelog.__version__})
        return JSONResponse(shown)

    async def plugin_config(self, request: Request) -> Response:
        return JSONResponse(answers.definitions(self._plugin(request)))

    async def validate(self, request: Request) -> Response:
        plugin, name = self._plugin(request), request.path_params["plugin"]
        settings = {
            key: answers.text_of(value)
            for key, value in (await object_of(request)).items()
            if value is not None
        }
        problems = await asyncio.to_thread(problems_of, plugin, settings)
        return JSONResponse(answers.validation(name, plugin, settings, problems))

    def _plugin(self, request: Request) -> Any:
        try:
            return self._worker.plugins.find(request.path_params["plugin"])
        except errors.InvalidConfig as problem:
            raise RequestRefused(404, str(problem)) from None

    async def loggers(self, request: Request) -> Response:
        names = [name for name in logging.root.manager.loggerDict if name.startswith("tidelog")]
        shown = {name: logging.getLogger(name) for name in ("root", *sorted(names))}
        return JSONResponse(
            {name: {"level": logging.getLevelName(each.getEffectiveLevel())} for name, each in shown.items()}
        )

    async def set_logger(self, request: Request) -> Response:
        name, wanted = request.path_params["logger"], str((await object_of(request)).get("level", "")).lower()
        wanted = {"warn": "warning", "trace": "debug", "fatal": "critical"}.get(wanted, wanted)
        if wanted not in LEVELS or (name != "root" and not name.startswith("tidelog")):
            raise RequestRefused(404, f"invalid log level {wanted!r} or logger {name!r}")
        logging.getLogger(None if name == "root" else name).setLevel(LEVELS[wanted])
        return JSONResponse([name])


def _guarded(handler: Handler, users: WorkerUsers | None) -> Handler:
    async def guarded(request: Request) -> Response:
        origin = request.headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
            raise RequestRefused(403, f"requests of pages of {origin} are not answered")
        if users is not None:
            await users.check(request)
        return await handler(request)

    return guarded


def _answer(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    return JSONResponse({"error_code": status, "message": message}, status, headers)


async def _refused(_: Request, problem: Exception) -> Response:
    assert isinstance(problem, RequestRefused)
    return _answer(problem.status, str(problem), problem.headers)


async def _not_found(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, HTTPException)
    return _answer(problem.status_code, f"HTTP {problem.status_code} {problem.detail}: {request.url.path}")


async def _failed(_: Request, problem: Exception) -> Response:
    assert isinstance(problem, errors.TidelogError)
    return _answer(503 if problem.retriable else 500, str(problem))
