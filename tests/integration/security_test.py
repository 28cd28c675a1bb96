#!/usr/bin/python3
"""Who gets in: TLS between nodes and programs, tokens, certificates of the user's own, and strangers at the gRPC ports."""

import json
import os
import shutil
import signal
import socket
import ssl
import stat
import subprocess
import threading
import warnings

import kvctl_support


def other_address():
    """An IPv4 address of this machine beyond loopback, or None."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # Sends nothing; it asks for the route.
        except OSError:
            return None
        address = probe.getsockname()[0]
        return None if address.startswith("127.") else address


# As gRPC and the SDK say it.
NO_ANSWER = "answer|cannot be reached"


class SecurityTest(kvctl_support.KvctlTest):
    nodes = 0

    def content(self):
        with open(self.cluster.file, encoding="utf-8") as file:
            return json.load(file)

    def changed(self, change):
        """A copy of the connection file beside it, after `change` of its content."""
        content = self.content()
        change(content)
        path = os.path.join(os.path.dirname(self.cluster.file), "changed.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(content, file)
        os.chmod(path, 0o600)
        return path

    def addresses(self):
        return [tuple(node["control_address"].rsplit(":", 1)) for node in self.content()["nodes"]]

    def in_folder(self, name):
        return os.path.join(self.cluster.folder, name)

    def serves(self, **more):
        """By gRPC, and by the SDK, which asks each daemon."""
        self.good("put", "default", "k", "v", **more)
        self.assertEqual(self.good("get", "default", "k", **more), b"v")
        self.good("ping", **more)

    def refused(self, path, says, **more):
        """Quickly, by both ways."""
        for verb in (("get", "default", "k"), ("ping",)):
            result = self.kvctl(*verb, "--cluster", path, "--timeout", "1s", **more)
            self.assertIn(result.code, (1, 2, 4, 5), result)
            self.assertRegex(result.err.decode(), says, result)


class ByTls(SecurityTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.cluster.start(3, more=["--tls"])

    def test_programs_need_the_file_only(self):
        self.serves()
        tls = self.content()["tls"]
        self.assertFalse(tls["mutual"])
        self.assertIn("BEGIN CERTIFICATE", tls["ca"])
        self.assertNotIn("PRIVATE", json.dumps(self.content()))

    def test_the_key_is_its_owners_only(self):
        path = os.path.join(os.path.dirname(self.cluster.file), self.content()["tls"]["file"])
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        for folder, _, names in os.walk(self.cluster.folder):
            for name in names:
                whole = os.path.join(folder, name)
                if not os.path.isfile(whole):
                    continue  # A socket.
                with open(whole, "rb") as file:
                    if b"PRIVATE KEY" in file.read(1 << 20):
                        self.assertEqual(stat.S_IMODE(os.stat(whole).st_mode), 0o600, whole)

    def test_a_plain_program_gets_nothing(self):
        self.refused(self.changed(lambda content: content.pop("tls")), NO_ANSWER)

    def test_another_authority_is_not_believed(self):
        other = kvctl_support.Cluster(self.build)
        self.addCleanup(other.close)
        other.start(1, more=["--tls"])
        with open(other.file, encoding="utf-8") as file:
            ca = json.load(file)["tls"]["ca"]
        self.refused(self.changed(lambda content: content["tls"].update(ca=ca)), NO_ANSWER)

    def test_damage_never_leads_to_a_plain_connection(self):
        for damage in ({"ca": ""}, {"ca": 7}):
            path = self.changed(lambda content, damage=damage: content["tls"].update(damage))
            self.refused(path, "'tls' has no 'ca'")
        self.refused(self.changed(lambda content: content.update(tls=[])), "'tls' is not an object")
        self.refused(self.changed(lambda content: content["tls"].update(ca="junk")), NO_ANSWER)

    def test_old_versions_of_tls_are_refused(self):
        host, port = self.addresses()[0]
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            context.minimum_version = ssl.TLSVersion.TLSv1
            context.maximum_version = ssl.TLSVersion.TLSv1_1
        context.set_ciphers("ALL:@SECLEVEL=0")
        with socket.create_connection((host, int(port)), timeout=10) as plain:
            with self.assertRaises((ssl.SSLError, ConnectionError)):
                context.wrap_socket(plain)

    def test_a_node_joins_by_the_file_alone(self):
        file = self.in_folder("joined.json")
        kvd = os.path.join(self.build, "bin", "kvd")
        common = [kvd, "--nodes=2", "--memory=64MiB", "--cluster", file, "--tls", "--interface=lo",
                  "--wait=block"]
        daemons = []

        def end():
            for daemon in daemons:
                daemon.kill()
                daemon.wait()

        self.addCleanup(end)
        for number in range(2):
            with open(self.in_folder(f"joined.{number}.log"), "wb") as log:
                daemons.append(subprocess.Popen([*common, "--data-dir", self.in_folder(f"joined.{number}")],
                                                env=self.cluster.environment, stdout=log, stderr=log))
        kvctl_support.wait_until(lambda: self.kvctl("status", "--cluster", file).code == 0)
        self.serves_at(file)
        # One that was killed comes back to the same cluster, whichever of them it was.
        for number in range(2):
            daemons[number].send_signal(signal.SIGKILL)
            daemons[number].wait()
            with open(self.in_folder(f"joined.{number}.again.log"), "wb") as log:
                daemons[number] = subprocess.Popen(
                    [*common, "--data-dir", self.in_folder(f"joined.{number}")],
                    env=self.cluster.environment, stdout=log, stderr=log)
            kvctl_support.wait_until(lambda: self.kvctl("ping", "--cluster", file).code == 0)

    def serves_at(self, file):
        kvctl_support.wait_until(lambda: self.kvctl("put", "default", "j", "v", "--cluster", file).code == 0)
        self.assertEqual(self.good("get", "default", "j", "--cluster", file), b"v")
        kvctl_support.wait_until(lambda: self.kvctl("ping", "--cluster", file).code == 0)

    def test_a_node_joins_by_address_with_the_token_and_the_tls_file(self):
        file = self.in_folder("first.json")
        kvd = os.path.join(self.build, "bin", "kvd")
        started = []

        def start(name, *arguments):
            log = self.in_folder(name + ".log")
            with open(log, "wb") as to:
                daemon = subprocess.Popen([kvd, "--memory=64MiB", "--wait=block", "--data-dir", self.in_folder(name),
                                           *arguments], env=self.cluster.environment, stdout=to, stderr=to)
            started.append(daemon)
            return daemon, log

        def end():
            for daemon in started:
                daemon.kill()
                daemon.wait()

        self.addCleanup(end)
        start("first", "--nodes=2", "--cluster", file, "--tls", "--interface=lo")
        kvctl_support.wait_until(lambda: os.path.exists(file))
        with open(file, encoding="utf-8") as text:
            content = json.load(text)
        address = content["nodes"][0]["control_address"]
        token = os.path.join(self.cluster.folder, content["token_file"])
        joining = ["--join", address, "--token-file", token]
        plain, log = start("plain", *joining, "--join-timeout-ms=1500")
        self.assertEqual(plain.wait(timeout=kvctl_support.PATIENCE_SECONDS), 1)
        with open(log, encoding="utf-8") as text:
            self.assertIn(address, text.read())
        start("second", *joining, "--tls-file", os.path.join(self.cluster.folder, content["tls"]["file"]))
        self.serves_at(file)

    def test_strangers_at_the_ports_harm_nobody(self):
        strangers = []
        try:
            for host, port in self.addresses():
                for number in range(60):
                    stranger = socket.create_connection((host, int(port)), timeout=10)
                    strangers.append(stranger)
                    if number % 3 == 1:
                        stranger.sendall(os.urandom(4096))
                    if number % 3 == 2:
                        stranger.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01")  # Of a hello that never ends.
            self.serves()
        finally:
            for stranger in strangers:
                stranger.close()
        self.serves()
        self.assertTrue(all(kvctl_support.alive(pid) for pid in self.cluster.pids))


class WithoutTls(SecurityTest):
    """On loopback, where the token alone protects."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.cluster.start(1)

    def test_strangers_at_the_port_harm_nobody(self):
        (host, port), = self.addresses()
        stop = threading.Event()
        strangers = [socket.create_connection((host, int(port)), timeout=10) for _ in range(90)]
        try:
            for stranger in strangers[::3]:
                stranger.sendall(os.urandom(4096))
            preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])

            def drip():
                for byte in preface:
                    for stranger in strangers[1::3]:
                        try:
                            stranger.sendall(bytes([byte]))
                        except OSError:
                            pass
                    if stop.wait(0.02):
                        return

            dripping = threading.Thread(target=drip)
            dripping.start()
            self.serves()
            stop.set()
            dripping.join()
        finally:
            for stranger in strangers:
                stranger.close()
        self.serves()
        self.assertTrue(all(kvctl_support.alive(pid) for pid in self.cluster.pids))

    def test_no_token_and_wrong_ones_are_refused(self):
        wrong = self.in_folder("wrong.token")
        with open(wrong, "w", encoding="utf-8") as file:
            file.write("0" * 64)
        os.chmod(wrong, 0o600)
        self.refused(self.changed(lambda content: content.update(token_file=wrong)), "token")
        os.chmod(wrong, 0o644)
        self.refused(self.changed(lambda content: content.update(token_file=wrong)), "others than its owner")


class WithOwnCertificates(SecurityTest):
    """As a site with its own authority makes them, by the openssl command."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.site = cls.make_authority("site")
        cls.stranger = cls.make_authority("stranger")
        cls.daemon = cls.certify(cls.site, "daemon", "subjectAltName=IP:127.0.0.1")
        cls.user = cls.certify(cls.site, "user", "extendedKeyUsage=clientAuth")
        cls.of_stranger = cls.certify(cls.stranger, "guest", "extendedKeyUsage=clientAuth")
        cls.environment = cls.variables(cls.user)
        # kvctl start gives the daemons their own, and asks them with the user's.
        cls.cluster.environment.update(cls.environment)
        cls.cluster.start(2, more=["--tls-cert", cls.daemon + ".pem", "--tls-key", cls.daemon + ".key",
                                   "--tls-ca", cls.site + ".pem"])
        for name in cls.environment:
            del cls.cluster.environment[name]

    @classmethod
    def openssl(cls, *arguments):
        subprocess.run(["openssl", *arguments], check=True, capture_output=True, cwd=cls.cluster.folder)

    @classmethod
    def make_authority(cls, name):
        path = os.path.join(cls.cluster.folder, name)
        cls.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                    "-subj", f"/CN={name}", "-keyout", path + ".key", "-out", path + ".pem")
        return path

    @classmethod
    def certify(cls, authority, name, extension):
        path = os.path.join(cls.cluster.folder, name)
        with open(path + ".ext", "w", encoding="utf-8") as file:
            file.write(extension + "\n")
        cls.openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
                    f"/CN={name}", "-keyout", path + ".key", "-out", path + ".csr")
        cls.openssl("x509", "-req", "-in", path + ".csr", "-CA", authority + ".pem", "-CAkey", authority + ".key",
                    "-CAcreateserial", "-days", "1", "-extfile", path + ".ext", "-out", path + ".pem")
        os.chmod(path + ".key", 0o600)
        return path

    @staticmethod
    def variables(certificate):
        return {"TIDEPOOL_TLS_CERT": certificate + ".pem", "TIDEPOOL_TLS_KEY": certificate + ".key"}

    def test_programs_with_a_certificate_are_served(self):
        self.serves(environment=self.environment)
        self.assertTrue(self.content()["tls"]["mutual"])

    def test_programs_without_one_hear_what_to_give(self):
        self.refused(self.cluster.file, "TIDEPOOL_TLS_CERT")

    def test_certificates_of_others_are_refused(self):
        self.refused(self.cluster.file, NO_ANSWER, environment=self.variables(self.of_stranger))

    def test_a_key_that_others_may_read_is_refused(self):
        copy = os.path.join(self.cluster.folder, "open")
        shutil.copy(self.user + ".pem", copy + ".pem")
        shutil.copy(self.user + ".key", copy + ".key")
        os.chmod(copy + ".key", 0o644)
        self.refused(self.cluster.file, "others than its owner", environment=self.variables(copy))

    def test_another_daemon_without_a_certificate_hears_what_to_give(self):
        daemon = subprocess.run([os.path.join(self.build, "bin", "kvd"), "--cluster", self.cluster.file,
                                 "--memory=64MiB", "--data-dir", self.in_folder("other")],
                                env=self.cluster.environment, capture_output=True, check=False,
                                timeout=kvctl_support.PATIENCE_SECONDS)
        self.assertNotEqual(daemon.returncode, 0)
        self.assertTrue(os.path.exists(self.cluster.file))
        self.assertTrue(all(kvctl_support.alive(pid) for pid in self.cluster.pids))


class BeyondLoopback(SecurityTest):
    def test_tls_is_on_by_itself(self):
        address = other_address()
        if address is None:
            self.skipTest("this machine has no network interface but loopback")
        self.cluster.start(2, more=["--interface", address])
        self.assertIn("tls", self.content())
        self.assertFalse(self.content()["insecure"])
        self.serves()

    def test_insecure_says_otherwise(self):
        address = other_address()
        if address is None:
            self.skipTest("this machine has no network interface but loopback")
        self.cluster.start(1, more=["--interface", address, "--insecure"])
        self.assertNotIn("tls", self.content())
        self.refused(self.cluster.file, "without TLS")
        self.serves(environment={"TIDEPOOL_INSECURE": "1"})


if __name__ == "__main__":
    kvctl_support.main()
